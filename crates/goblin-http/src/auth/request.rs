//! What a request shows of itself before any route sees it: its host, its origin, and its caller's credentials.

use super::hosts::authority;
use super::tokens::holds_token;
use crate::answer::Failure;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};

/// Headers of which a second one would leave open which of them counts.
const SINGLE: [HeaderName; 5] = [HOST, AUTHORIZATION, ORIGIN, CONTENT_LENGTH, CONTENT_TYPE];

/// Parameters in which people send tokens elsewhere. A URL ends up in histories and logs.
const TOKEN_PARAMETERS: [&str; 8] = [
    "token",
    "access_token",
    "auth_token",
    "api_token",
    "api_key",
    "apikey",
    "authorization",
    "bearer",
];

/// The session's cookie. Under TLS its prefix binds it to this host and to TLS.
pub(crate) fn session_cookie(tls: bool) -> &'static str {
    if tls {
        "__Host-node_goblin_session"
    } else {
        "node_goblin_session"
    }
}

/// How a caller proves who it is.
#[derive(PartialEq, Eq)]
pub(super) enum Shown<'r> {
    Nothing,
    Bearer(&'r str),
    Session(&'r str),
    /// Something that nobody can hold to be either.
    Unusable,
}

/// Refuses a request that can be read in more ways than one.
pub(super) fn unambiguous(headers: &HeaderMap) -> Result<(), Failure> {
    let doubled = |name: &HeaderName| headers.get_all(name).iter().nth(1).is_some();
    match SINGLE.iter().any(doubled) {
        // A type too many is a type that is not supported, as routes say themselves.
        true if doubled(&CONTENT_TYPE) => Err(Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
        )),
        true => Err(Failure::invalid("duplicate_header")),
        false => Ok(()),
    }
}

/// Refuses a query that holds a token, or what would be one.
pub(super) fn tokenless(query: Option<&str>) -> Result<(), Failure> {
    let holds = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name).to_ascii_lowercase();
        TOKEN_PARAMETERS.contains(&name.as_str()) || holds_token(&name) || holds_token(&decoded(value))
    };
    match query.unwrap_or_default().split(['&', ';']).any(holds) {
        true => Err(Failure::invalid("token_in_query")),
        false => Ok(()),
    }
}

/// The host that is asked. A request whose line names one says the same in its header.
pub(super) fn host(request: &Request) -> Result<Authority, Failure> {
    let invalid = || Failure::invalid("host_invalid");
    let named = request.headers().get(HOST).map(|host| authority(host.as_bytes()));
    let line = request
        .uri()
        .authority()
        .map(|host| authority(host.as_str().as_bytes()));
    match (named, line) {
        (Some(Some(host)), None) | (None, Some(Some(host))) => Ok(host),
        (Some(Some(host)), Some(Some(line))) if host == line => Ok(host),
        _ => Err(invalid()),
    }
}

pub(super) fn shown(headers: &HeaderMap, tls: bool) -> Shown<'_> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let bearer = value.to_str().ok().and_then(|text| text.split_once(' '));
        return match bearer {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Shown::Bearer(token.trim()),
            _ => Shown::Unusable,
        };
    }
    let name = session_cookie(tls);
    let mut sessions = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(cookie, _)| *cookie == name);
    match (sessions.next(), sessions.next()) {
        (None, _) => Shown::Nothing,
        (Some((_, secret)), None) => Shown::Session(secret),
        // One of them was planted.
        (Some(_), Some(_)) => Shown::Unusable,
    }
}

/// Percent-decoded, as far as it can be.
pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn a_token_in_a_query_is_seen_however_it_is_written() {
        let token = format!("ng_{}", "x".repeat(43));
        for query in [
            "token=abc".to_owned(),
            "limit=5&Access_Token=abc".to_owned(),
            "token".to_owned(),
            "%74oken=abc".to_owned(),
            format!("anything={token}"),
            format!("anything=%6eg%5F{}", "x".repeat(43)),
            format!("limit=5;x={token}"),
            token.clone(),
        ] {
            assert!(tokenless(Some(&query)).is_err(), "{query}");
        }
        for query in [
            None,
            Some(""),
            Some("gatewayId=token&limit=5"),
            Some("x=ng_5&y=%"),
            Some("x=%zz%4"),
        ] {
            assert!(tokenless(query).is_ok(), "{query:?}");
        }
    }

    #[test]
    fn the_host_is_told_once_and_in_one_way() {
        let asked = |line: &str, named: Option<&str>| {
            let mut request = Request::builder().uri(line);
            if let Some(named) = named {
                request = request.header(HOST, named);
            }
            host(&request.body(Body::empty()).unwrap())
                .ok()
                .map(|host| host.to_string())
        };
        assert_eq!(asked("/x", Some("localhost:1")).as_deref(), Some("localhost:1"));
        assert_eq!(asked("http://localhost:1/x", None).as_deref(), Some("localhost:1"));
        assert_eq!(
            asked("http://LOCALHOST/x", Some("localhost")).as_deref(),
            Some("localhost")
        );
        assert_eq!(asked("http://evil.example/x", Some("localhost")), None);
        assert_eq!(asked("/x", None), None);
        assert_eq!(asked("/x", Some("a b")), None);
    }

    #[test]
    fn credentials_are_read_from_one_place() {
        let read = |pairs: &[(HeaderName, &str)], tls| {
            let headers: HeaderMap = HeaderMap::from_iter([]);
            let headers = pairs.iter().fold(headers, |mut headers, (name, value)| {
                headers.append(name, value.parse().unwrap());
                headers
            });
            match shown(&headers, tls) {
                Shown::Nothing => "nothing".to_owned(),
                Shown::Bearer(token) => format!("bearer {token}"),
                Shown::Session(secret) => format!("session {secret}"),
                Shown::Unusable => "unusable".to_owned(),
            }
        };
        assert_eq!(read(&[], false), "nothing");
        assert_eq!(read(&[(AUTHORIZATION, "bEARER  t ")], false), "bearer t");
        assert_eq!(read(&[(AUTHORIZATION, "Basic dDp0")], false), "unusable");
        assert_eq!(read(&[(AUTHORIZATION, "t")], false), "unusable");
        assert_eq!(read(&[(COOKIE, "a=b; node_goblin_session=s;c")], false), "session s");
        assert_eq!(read(&[(COOKIE, "node_goblin_session=s")], true), "nothing");
        assert_eq!(
            read(&[(COOKIE, "a=b"), (COOKIE, "__Host-node_goblin_session=s")], true),
            "session s"
        );
        let two = "node_goblin_session=s; node_goblin_session=t";
        assert_eq!(read(&[(COOKIE, two)], false), "unusable");
        assert_eq!(
            read(&[(AUTHORIZATION, "Basic x"), (COOKIE, "node_goblin_session=s")], false),
            "unusable"
        );
    }
}
