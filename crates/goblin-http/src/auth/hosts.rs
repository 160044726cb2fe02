//! The names under which the server is meant to be asked, against pages that make a browser take it for their own
//! server. It must never know who asks.

use axum::http::uri::Authority;
use std::collections::HashSet;
use std::net::IpAddr;

/// Names that count beside the loopback ones and the address of the connection itself.
#[derive(Debug, Default)]
pub(crate) struct Hosts(HashSet<String>);

impl Hosts {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| bare(&name)).collect())
    }

    /// Whether a request to this host, over a connection to `local`, is meant for us. Ports do not matter: they may be
    /// forwarded, and a name that is taken over keeps its port.
    pub(crate) fn allow(&self, host: &Authority, local: IpAddr) -> bool {
        let name = bare(host.host());
        if name == "localhost" || self.0.contains(&name) {
            return true;
        }
        name.parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback() || address == local.to_canonical())
    }
}

/// A host without brackets and closing dot, in lower case.
fn bare(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host).to_ascii_lowercase()
}

/// The authority of a `Host` header; `None` for what is none.
pub(crate) fn authority(text: &[u8]) -> Option<Authority> {
    let authority: Authority = std::str::from_utf8(text).ok()?.parse().ok()?;
    let plain = !authority.as_str().contains('@') && !authority.host().is_empty();
    // A port that is none would be dropped unseen.
    let port = authority.as_str().len() == authority.host().len() || authority.port_u16().is_some();
    (plain && port).then_some(authority)
}

/// Whether a page of this origin is one of ours: it has the very host that is asked.
pub(crate) fn is_same(origin: &[u8], host: &Authority) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else {
        return false;
    };
    let (rest, default) = match (origin.strip_prefix("https://"), origin.strip_prefix("http://")) {
        (Some(rest), _) => (rest, 443),
        (None, Some(rest)) => (rest, 80),
        (None, None) => return false,
    };
    let Some(origin) = authority(rest.as_bytes()) else {
        return false;
    };
    let port = |of: &Authority| of.port_u16().unwrap_or(default);
    bare(origin.host()) == bare(host.host()) && port(&origin) == port(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(host: &str) -> bool {
        let hosts = Hosts::new([
            "Goblin.Example.org".to_owned(),
            "10.0.0.7".to_owned(),
            "fe80::1".to_owned(),
        ]);
        let local = "192.0.2.1".parse().unwrap();
        authority(host.as_bytes()).is_some_and(|host| hosts.allow(&host, local))
    }

    #[test]
    fn only_our_names_are_ours() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:7480",
            "127.9.9.9",
            "[::1]:7480",
            "goblin.example.org",
            "goblin.example.org.:7480",
            "10.0.0.7:80",
            "[FE80::1]",
            "192.0.2.1:7480",
        ] {
            assert!(allowed(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil.goblin.example.org",
            "127.0.0.1.nip.io",
            "192.0.2.2",
            "0.0.0.0",
            "2130706433",
            "0x7f.1",
            "user@localhost",
            "localhost:port",
            "localhost:70000",
            "localhost:7480:7480",
            "localhost/evil.example",
            "localhost,evil.example",
            "local host",
            "::1",
        ] {
            assert!(!allowed(host), "{host}");
        }
    }

    #[test]
    fn an_origin_is_the_host_that_is_asked_or_foreign() {
        let same = |origin: &str, host: &str| is_same(origin.as_bytes(), &authority(host.as_bytes()).unwrap());
        assert!(same("http://localhost:7480", "localhost:7480"));
        assert!(same("https://goblin.example.org", "GOBLIN.example.org:443"));
        assert!(same("http://[::1]:7480", "[::1]:7480"));
        for origin in [
            "null",
            "",
            "http://evil.example",
            "http://localhost:3000",
            "http://127.0.0.1:7480",
            "http://localhost:7480.evil.example",
            "http://localhost:7480@evil.example",
            "http://localhost",
            "localhost:7480",
            "file://localhost:7480",
        ] {
            assert!(!same(origin, "localhost:7480"), "{origin}");
        }
    }
}
