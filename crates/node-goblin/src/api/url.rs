//! The URL of a controller's API as people write it. It must never know how it is connected to.

use hyper::Uri;
use std::fmt;
use std::net::IpAddr;

/// Where an API is served. Carries no secret: credentials in a URL are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUrl {
    /// Over TLS.
    pub https: bool,
    /// Name or IP address, the latter without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What comes before every path: empty, or begins with a slash and ends with none.
    pub base: String,
}

impl ApiUrl {
    /// Reads `http(s)://HOST[:PORT][/BASE]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = |why: &str| {
            format!(
                "{why}; give it as https://HOST[:PORT] or http://HOST[:PORT], with a path before the API's where there is one"
            )
        };
        if text.contains('@') {
            // It may hold a password, so it is not repeated.
            return Err(fault("a URL with credentials is not taken"));
        }
        if text.contains(['?', '#']) {
            return Err(fault("a URL with a query or a fragment is not taken"));
        }
        let uri: Uri = text.parse().map_err(|_| fault("this is no URL"))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(fault("only http and https are known")),
        };
        let host = uri.host().unwrap_or_default();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() {
            return Err(fault("the URL names no host"));
        }
        let bare = uri.authority().map(|authority| authority.as_str()) == uri.host();
        let port = match uri.port_u16() {
            Some(port) => port,
            None if bare && https => 443,
            None if bare => 80,
            None => 0,
        };
        if port == 0 {
            return Err(fault("the URL's port is not valid"));
        }
        Ok(Self {
            https,
            host: host.to_ascii_lowercase(),
            port,
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// `HOST:PORT`, for the `Host` header.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// True when the URL means this very machine. A name is checked again when it is resolved.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }
}

impl fmt::Display for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_scheme_host_port_and_base() {
        for (text, shown) in [
            ("https://Goblin.example.org", "https://goblin.example.org:443"),
            ("http://127.0.0.1:7480/", "http://127.0.0.1:7480"),
            ("https://h/a/b//", "https://h:443/a/b"),
            ("http://[::1]:7480", "http://[::1]:7480"),
        ] {
            let url = ApiUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(ApiUrl::parse(shown), Ok(url), "as a profile holds it");
        }
    }

    #[test]
    fn what_is_no_such_url_is_refused_without_repeating_a_password() {
        for bad in [
            "",
            "h",
            "h:80",
            "ftp://h",
            "https://",
            "https:///x",
            "https://h?token=x",
            "https://h/#x",
            "https://h:0",
            "https://h:70000",
            "https://h:",
            "https://h x",
            "unix:/x",
            "https://h\n",
        ] {
            assert!(ApiUrl::parse(bad).is_err(), "{bad}");
        }
        let fault = ApiUrl::parse("https://me:hunter2@h").unwrap_err();
        assert!(fault.contains("credentials") && !fault.contains("hunter2"));
    }

    #[test]
    fn loopback_is_told() {
        for (host, is) in [
            ("127.9.9.9", true),
            ("[::1]", true),
            ("localhost", true),
            ("localhost.example.org", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(
                ApiUrl::parse(&format!("http://{host}")).unwrap().is_loopback(),
                is,
                "{host}"
            );
        }
    }
}
