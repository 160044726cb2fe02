//! What a child finds in its environment: the daemon's own, less what belongs to the daemon alone, plus what was asked for.

use goblin_protocol::request::ProtectedValues;
use std::ffi::{OsStr, OsString};

/// Names an operation's processes by a random mark, so that a later daemon recognises what its predecessor left behind.
pub const MARK_VARIABLE: &str = "BURROW_OPERATION_MARK";

/// The part of the environment that every child shares, made once.
#[derive(Clone, Debug)]
pub struct BaseEnvironment(Vec<(OsString, OsString)>);

impl BaseEnvironment {
    /// The daemon's environment without what no child may inherit.
    pub fn new(own: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(
            own.into_iter()
                .filter(|(name, _)| !belongs_to_the_daemon(name))
                .collect(),
        )
    }

    /// The complete environment of one child. Later groups override earlier ones: base, request, protected values, mark.
    pub fn for_child(
        &self,
        added: &[(String, String)],
        protected: &ProtectedValues,
        mark: &str,
    ) -> Vec<(OsString, OsString)> {
        let added = added.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let protected = protected.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut overrides: Vec<(&str, &str)> = added.chain(protected).chain([(MARK_VARIABLE, mark)]).collect();
        // Of one name the last counts.
        let mut seen = std::collections::HashSet::new();
        overrides.reverse();
        overrides.retain(|(name, _)| seen.insert(*name));
        overrides.reverse();
        let kept = self
            .0
            .iter()
            .filter(|(name, _)| name.to_str().is_none_or(|name| !seen.contains(name)))
            .cloned();
        kept.chain(overrides.into_iter().map(|(name, value)| (name.into(), value.into())))
            .collect()
    }
}

/// Variables that hold a secret of the daemon, or that speak to it alone.
fn belongs_to_the_daemon(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"BURROW_GATEWAY_")
        || name == MARK_VARIABLE.as_bytes()
        || (name.starts_with(b"OTEL_") && name.ends_with(b"HEADERS"))
        || matches!(
            name,
            b"NOTIFY_SOCKET"
                | b"WATCHDOG_PID"
                | b"WATCHDOG_USEC"
                | b"LISTEN_FDS"
                | b"LISTEN_PID"
                | b"LISTEN_FDNAMES"
                | b"CREDENTIALS_DIRECTORY"
                | b"NODE_GOBLIN_TOKEN"
                | b"NODE_GOBLIN_SECRETS_KEY_FILE"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    #[test]
    fn secrets_of_the_daemon_stay_with_it() {
        let own = [
            "PATH",
            "BURROW_GATEWAY_ENROLLMENT_TOKEN",
            "BURROW_GATEWAY_ENROLLMENT_TOKEN_FILE",
            "BURROW_GATEWAY_ID",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_SERVICE_NAME",
            "NOTIFY_SOCKET",
            "CREDENTIALS_DIRECTORY",
            "BURROW_OPERATION_MARK",
            "NODE_GOBLIN_TOKEN",
        ];
        let base = BaseEnvironment::new(own.map(|name| (name.into(), "x".into())));
        let names: Vec<_> = base.0.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["PATH", "OTEL_SERVICE_NAME"]);
    }

    #[test]
    fn later_groups_override_earlier_ones() {
        let base = BaseEnvironment::new([
            ("A".into(), "base".into()),
            ("B".into(), "base".into()),
            ("C".into(), "base".into()),
        ]);
        let added = [
            ("A", "request"),
            ("B", "request"),
            ("B", "again"),
            (MARK_VARIABLE, "forged"),
        ]
        .map(|(n, v)| (n.to_owned(), v.to_owned()));
        let protected = vec![("B".to_owned(), Zeroizing::new("secret".to_owned()))];
        let child = base.for_child(&added, &protected, "mark");
        let text: Vec<String> = child
            .iter()
            .map(|(name, value)| format!("{}={}", name.to_str().unwrap(), value.to_str().unwrap()))
            .collect();
        assert_eq!(text, ["C=base", "A=request", "B=secret", "BURROW_OPERATION_MARK=mark"]);
    }
}
