//! Which route needs what, in one place. What is not listed needs the admin scope.

use axum::http::Method;
use goblin_api::routes::{
    HEALTHZ, LOGIN, LOGOUT, PREFIX, TOKEN, TOKENS,
    template::{
        APPROVE, CANCEL, CONTROLLER, CONTROLLER_TLS, FILESYSTEM, GATEWAYS, OPERATIONS, PAIRINGS, PROCESSES, REJECT,
        TRUST, TRUST_OF,
    },
};
use goblin_ports::TokenScope::{self, Admin, Execute, Read};

/// What a caller must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: everybody may.
    Nothing,
    /// Any token or session that holds.
    Anyone,
    /// At least this scope.
    Scope(TokenScope),
}

/// What a route needs, and what the audit log calls it; what only looks is not audited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) need: Need,
    pub(crate) action: Option<&'static str>,
}

type Row = (Method, &'static str, Access);

const fn looks(scope: TokenScope) -> Access {
    Access {
        need: Need::Scope(scope),
        action: None,
    }
}

const fn acts(scope: TokenScope, action: &'static str) -> Access {
    Access {
        need: Need::Scope(scope),
        action: Some(action),
    }
}

const PUBLIC: Access = Access {
    need: Need::Nothing,
    action: None,
};

const fn session(need: Need, action: &'static str) -> Access {
    Access {
        need,
        action: Some(action),
    }
}

/// Templates below the prefix. HEAD goes by GET.
const BELOW_PREFIX: &[Row] = &[
    (Method::GET, "/targets", looks(Read)),
    (Method::POST, "/targets", acts(Admin, "target.create")),
    (Method::PUT, "/targets/{id}", acts(Admin, "target.change")),
    (Method::DELETE, "/targets/{id}", acts(Admin, "target.delete")),
    (Method::GET, CONTROLLER, looks(Read)),
    (Method::PUT, CONTROLLER, acts(Admin, "controller.change")),
    (Method::PUT, CONTROLLER_TLS, acts(Admin, "certificate.change")),
    (Method::DELETE, CONTROLLER_TLS, acts(Admin, "certificate.delete")),
    (Method::GET, PAIRINGS, looks(Read)),
    (Method::POST, APPROVE, acts(Admin, "pairing.approve")),
    (Method::POST, REJECT, acts(Admin, "pairing.reject")),
    (Method::GET, TRUST, looks(Read)),
    (Method::PUT, TRUST_OF, acts(Admin, "gateway.enrol")),
    (Method::DELETE, TRUST_OF, acts(Admin, "gateway.revoke")),
    (Method::GET, GATEWAYS, looks(Read)),
    (Method::GET, OPERATIONS, looks(Read)),
    (Method::GET, "/operations/{operation_id}", looks(Read)),
    (
        Method::POST,
        "/operations/{operation_id}/resolve",
        acts(Admin, "operation.resolve"),
    ),
    (Method::POST, PROCESSES, acts(Execute, "process.execute")),
    (Method::POST, FILESYSTEM, acts(Execute, "filesystem.execute")),
    (Method::POST, CANCEL, acts(Execute, "operation.cancel")),
    (Method::GET, "/telemetry", looks(Read)),
    (Method::PUT, "/telemetry", acts(Admin, "telemetry.change")),
    (Method::GET, "/events", looks(Read)),
];

/// Templates of whole paths.
const AT_ROOT: &[Row] = &[
    (Method::GET, HEALTHZ, PUBLIC),
    (Method::GET, "/openapi.json", PUBLIC),
    (Method::GET, "/metrics", looks(Read)),
    (Method::POST, LOGIN, session(Need::Nothing, "session.begin")),
    (Method::POST, LOGOUT, session(Need::Anyone, "session.end")),
    (Method::GET, TOKENS, looks(Admin)),
    (Method::POST, TOKENS, acts(Admin, "token.create")),
    (Method::DELETE, TOKEN, acts(Admin, "token.revoke")),
    (Method::GET, "/api/agents", looks(Read)),
    (Method::POST, "/api/agents", acts(Admin, "agent.create")),
    (Method::PATCH, "/api/agents/{agent_id}", acts(Admin, "agent.change")),
    (
        Method::POST,
        "/api/agents/{agent_id}/processes",
        acts(Execute, "process.execute"),
    ),
    (
        Method::POST,
        "/api/agents/{agent_id}/filesystem",
        acts(Execute, "filesystem.execute"),
    ),
];

/// The access of a route that the router matched; of none, any caller is told that there is none.
pub(crate) fn of(method: &Method, template: Option<&str>) -> Access {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let Some(template) = template else {
        return Access {
            need: Need::Anyone,
            action: None,
        };
    };
    let rows = match template.strip_prefix(PREFIX) {
        Some(below) => (BELOW_PREFIX, below),
        None => (AT_ROOT, template),
    };
    let listed = rows.0.iter().find(|row| row.0 == *method && row.1 == rows.1);
    listed.map_or_else(
        || Access {
            need: Need::Scope(Admin),
            action: (!method.is_safe()).then_some("unlisted"),
        },
        |row| row.2,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_needs_everything() {
        let unlisted = of(&Method::POST, Some("/api/new"));
        assert_eq!(unlisted, acts(Admin, "unlisted"));
        assert_eq!(of(&Method::OPTIONS, Some(TOKENS)), looks(Admin));
        assert_eq!(
            of(&Method::DELETE, Some(&[PREFIX, GATEWAYS].concat())).need,
            Need::Scope(Admin)
        );
        // A template of one list is none of the other.
        assert_eq!(of(&Method::GET, Some(GATEWAYS)).need, Need::Scope(Admin));
        assert_eq!(
            of(&Method::GET, Some(&[PREFIX, HEALTHZ].concat())).need,
            Need::Scope(Admin)
        );
        assert_eq!(of(&Method::GET, None).need, Need::Anyone);
    }

    #[test]
    fn what_changes_anything_is_audited_and_never_a_matter_of_looking() {
        for (method, template, access) in BELOW_PREFIX.iter().chain(AT_ROOT) {
            assert_eq!(access.action.is_some(), !method.is_safe(), "{method} {template}");
            if !method.is_safe() {
                assert_ne!(access.need, Need::Scope(Read), "{method} {template}");
            }
        }
        let public = |rows: &'static [Row]| rows.iter().filter(|row| row.2.need == Need::Nothing).map(|row| row.1);
        assert_eq!(public(BELOW_PREFIX).count(), 0);
        assert_eq!(public(AT_ROOT).collect::<Vec<_>>(), [HEALTHZ, "/openapi.json", LOGIN]);
    }

    #[test]
    fn no_route_is_listed_twice_and_head_goes_by_get() {
        for rows in [BELOW_PREFIX, AT_ROOT] {
            for (index, row) in rows.iter().enumerate() {
                assert!(
                    !rows[index + 1..]
                        .iter()
                        .any(|other| (&other.0, other.1) == (&row.0, row.1)),
                    "{row:?}"
                );
            }
        }
        let gateways = [PREFIX, GATEWAYS].concat();
        assert_eq!(of(&Method::HEAD, Some(&gateways)), looks(Read));
    }
}
