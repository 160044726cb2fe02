//! Who may call what. Every request passes [`enter`] after the router has matched it and before its handler sees it, so
//! what is decided is decided over the very route that would answer.
//!
//! The Unix socket needs no token: its file lets its owner in alone. Over TCP a caller shows a bearer token, or a
//! session's cookie that a login gave it. Against pages of other sites: the host that is asked must be one of ours, an
//! `Origin` must be that host's, and a session's unsafe requests carry a header that only a page of ours can set.
//!
//! It must never know what a route does.

mod about;
mod access;
mod hosts;
mod request;
mod sessions;
mod tokens;
mod until;

pub(crate) use about::{about, acted_by};
pub(crate) use hosts::Hosts;
pub(crate) use request::session_cookie;
pub(crate) use sessions::{LIFE_MS, Sessions};
pub(crate) use tokens::{Book, Known, TokenError, digest_of};

use crate::answer::{Code, Failure};
use crate::audit::{AuditLog, Record};
use crate::limits::{Failures, Verdict};
use about::{About, Pending};
use access::{Access, Need};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goblin_api::{CSRF_HEADER, REQUEST_ID_HEADER};
use goblin_protocol::time::iso8601;
use request::Shown;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Random bytes of a request's id.
const REQUEST_ID_BYTES: usize = 8;

/// Where the time comes from: epoch milliseconds.
pub(crate) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What deciding about requests takes.
pub(crate) struct Door {
    pub(crate) tokens: Book,
    pub(crate) sessions: Sessions,
    pub(crate) failures: Failures,
    pub(crate) audit: AuditLog,
    pub(crate) hosts: Hosts,
    pub(crate) clock: Clock,
}

/// The connection that a request came over, as an extension of the request.
#[derive(Clone, Debug)]
pub(crate) enum Via {
    /// The Unix socket, by a process of this user.
    Socket { uid: u32 },
    /// TCP.
    Tcp(Arc<TcpVia>),
}

#[derive(Debug)]
pub(crate) struct TcpVia {
    pub(crate) peer: IpAddr,
    /// Our address of the connection.
    pub(crate) local: IpAddr,
    pub(crate) tls: bool,
    /// Cancelled once a request over it came from somebody who may call.
    pub(crate) known: CancellationToken,
}

impl Via {
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp(via) if via.tls)
    }
}

/// Who calls, as an extension of the request.
#[derive(Clone)]
pub(crate) enum Caller {
    Socket {
        uid: u32,
    },
    Token {
        known: Arc<Known>,
        session: Option<String>,
    },
    /// Somebody, at a route that is everybody's.
    Stranger(IpAddr),
}

impl Caller {
    fn actor(&self) -> String {
        match self {
            Self::Socket { uid } => format!("uid:{uid}"),
            Self::Token { known, .. } => format!("token:{}", known.record.id),
            Self::Stranger(peer) => format!("peer:{peer}"),
        }
    }
}

/// A request that goes no further.
struct Refusal {
    failure: Failure,
    /// Who it came from, where that is known.
    caller: Option<Caller>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, caller: None }
    }
}

/// Decides about a request, has it answered, notes it, and dresses the answer.
pub(crate) async fn enter(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let now = (door.clock)();
    let Some(via) = request.extensions().get::<Via>().cloned() else {
        error!("a request came over no known connection");
        return Failure::internal().into_response();
    };
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let template = matched.as_ref().map(MatchedPath::as_str);
    let access = access::of(request.method(), template);
    let record = Record {
        time: iso8601(now),
        actor: String::new(),
        action: access.action.unwrap_or("authenticate").to_owned(),
        subject: about::path_subject(template, request.uri().path()),
        result: String::new(),
        request_id: goblin_keys::random::hex(REQUEST_ID_BYTES).unwrap_or_default(),
    };
    let id = record.request_id.clone();
    let mut response = match door.admit(&via, access, &request, now) {
        Ok(caller) => {
            let about = Arc::new(About::default());
            let noting = access.action.map(|_| Pending {
                audit: door.audit.clone(),
                record: Some(Record {
                    actor: caller.actor(),
                    ..record.clone()
                }),
                about: about.clone(),
            });
            let stranger = matches!(caller, Caller::Stranger(_));
            let held = match &caller {
                Caller::Token { known, .. } => Some(known.clone()),
                Caller::Socket { .. } | Caller::Stranger(_) => None,
            };
            request.extensions_mut().insert(caller);
            let mut response = about.clone().listening(next.run(request)).await;
            if let Some(known) = held {
                response = until::while_holding(response, known, now);
            }
            if stranger && response.status() == StatusCode::UNAUTHORIZED {
                if let Some(noting) = noting {
                    noting.forget();
                }
                door.failed(&via, record, response, now)
            } else {
                if let Some(noting) = noting {
                    noting.finish(code(&response));
                }
                response
            }
        }
        Err(Refusal {
            failure,
            caller: Some(caller),
        }) => {
            let response = failure.into_response();
            door.audit.record(Record {
                actor: caller.actor(),
                result: code(&response),
                ..record
            });
            response
        }
        Err(Refusal { failure, caller: None }) => door.failed(&via, record, failure.into_response(), now),
    };
    dress(response.headers_mut(), &id);
    response
}

impl Door {
    fn admit(&self, via: &Via, access: Access, request: &Request, now: i64) -> Result<Caller, Refusal> {
        let headers = request.headers();
        request::unambiguous(headers)?;
        request::tokenless(request.uri().query())?;
        let tcp = match via {
            Via::Socket { uid } => return Ok(Caller::Socket { uid: *uid }),
            Via::Tcp(tcp) => tcp,
        };
        let is_public = access.need == Need::Nothing;
        // What everybody may see tells a page of another site nothing; who looks after the server may ask by any name.
        if !(is_public && request.method().is_safe()) {
            let host = request::host(request)?;
            if !self.hosts.allow(&host, tcp.local) {
                return Err(forbidden("host_forbidden").into());
            }
            if let Some(origin) = headers.get(ORIGIN)
                && !hosts::is_same(origin.as_bytes(), &host)
            {
                return Err(forbidden("origin_forbidden").into());
            }
        }
        if is_public {
            return Ok(Caller::Stranger(tcp.peer));
        }
        let (known, session) = self.identify(request::shown(headers, tcp.tls), now)?;
        tcp.known.cancel();
        let is_session = session.is_some();
        let scope = known.record.scope;
        let caller = Caller::Token { known, session };
        let refused = |code| {
            Err(Refusal {
                failure: forbidden(code),
                caller: Some(caller.clone()),
            })
        };
        if is_session && !request.method().is_safe() && !headers.contains_key(CSRF_HEADER) {
            return refused("csrf_header_required");
        }
        match access.need {
            Need::Scope(needed) if scope < needed => refused("forbidden"),
            Need::Scope(_) | Need::Anyone | Need::Nothing => Ok(caller),
        }
    }

    fn identify(&self, shown: Shown<'_>, now: i64) -> Result<(Arc<Known>, Option<String>), Failure> {
        let found = match shown {
            Shown::Bearer(token) => self.tokens.holding(&digest_of(token), now).map(|known| (known, None)),
            Shown::Session(secret) => self
                .sessions
                .resume(secret, now)
                .and_then(|digest| self.tokens.holding(&digest, now))
                .map(|known| (known, Some(secret.to_owned()))),
            Shown::Nothing | Shown::Unusable => None,
        };
        found.ok_or_else(Failure::unauthorized)
    }

    /// The answer to somebody who may not come in: counted, noted unless that happens all the time, and told to wait
    /// when it happened too often. A token that holds is let in all the same, so nobody can lock others out.
    fn failed(&self, via: &Via, record: Record, response: Response, now: i64) -> Response {
        let (actor, verdict) = match via {
            Via::Socket { uid } => (
                format!("uid:{uid}"),
                Verdict {
                    limited: None,
                    noted: true,
                },
            ),
            Via::Tcp(via) => (format!("peer:{}", via.peer), self.failures.count(via.peer.into(), now)),
        };
        let response = match verdict.limited {
            Some(left) if response.status() == StatusCode::UNAUTHORIZED => {
                let mut response = Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited").into_response();
                let seconds = left.as_millis().div_ceil(1000).max(1).to_string();
                if let Ok(seconds) = HeaderValue::from_str(&seconds) {
                    response.headers_mut().insert(RETRY_AFTER, seconds);
                }
                response
            }
            _ => response,
        };
        if verdict.noted {
            let code = code(&response);
            warn!(actor, code, request = record.request_id, "a request was not let in");
            self.audit.record(Record {
                actor,
                result: code,
                ..record
            });
        }
        response
    }
}

fn forbidden(code: &str) -> Failure {
    Failure::new(StatusCode::FORBIDDEN, code)
}

/// `ok`, or the code of a failure.
fn code(response: &Response) -> String {
    match response.extensions().get::<Code>() {
        Some(Code(code)) => code.clone(),
        None if response.status().is_success() => "ok".to_owned(),
        None => response.status().as_u16().to_string(),
    }
}

/// What a browser shall do with an answer: little. A page says itself where it may take its parts from.
fn dress(headers: &mut HeaderMap, id: &str) {
    const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    const REQUEST_ID: HeaderName = HeaderName::from_static(REQUEST_ID_HEADER);
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (RESOURCE_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
}
