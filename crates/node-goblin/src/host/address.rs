//! The controller's address as an operator gives it and as the configuration holds it.

use anyhow::{Context, bail};
use goblin_gateway::dial::Address;

/// Port of a configured address that names none.
const PORT_DEFAULT: u16 = 443;

/// Reads `HOST:PORT` or `tls://HOST:PORT`, as `configure` takes it.
pub fn given(text: &str) -> anyhow::Result<Address> {
    let text = text.trim();
    let rest = match text.split_once("://") {
        Some(("tls", rest)) => rest,
        Some((scheme, _)) => bail!("the controller speaks tls://, not {scheme}://"),
        None => text,
    };
    if let Some(odd) = rest
        .chars()
        .find(|letter| !letter.is_ascii_alphanumeric() && !"._:/[]-".contains(*letter))
    {
        bail!("{text:?} can't be an address: {odd:?} has no place in it");
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = split(rest).with_context(|| {
        format!("{text:?} is not HOST:PORT (an IPv6 address stands in brackets: [2001:db8::1]:7443)")
    })?;
    let port = port.with_context(|| format!("{text:?} names no port: give {host}:PORT"))?;
    Ok(Address { host, port })
}

/// Reads `tls://HOST[:PORT]`, as the daemon does.
pub fn configured(url: &str) -> anyhow::Result<Address> {
    let rest = url
        .strip_prefix("tls://")
        .with_context(|| format!("the controller's address {url:?} does not begin with tls://"))?;
    let (host, port) = split(rest.strip_suffix('/').unwrap_or(rest))
        .with_context(|| format!("the controller's address {url:?} is not tls://HOST[:PORT]"))?;
    let port = port.unwrap_or(PORT_DEFAULT);
    Ok(Address { host, port })
}

/// Host (an IPv6 address without its brackets) and port.
fn split(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            let port = match after {
                "" => None,
                _ => Some(after.strip_prefix(':')?),
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                // Without brackets nobody can tell where the address ends and the port begins.
                text.parse::<std::net::Ipv6Addr>().ok()?;
                (text, None)
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(plain) {
        return None;
    }
    let port = match port {
        None => None,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|&port| port != 0)?)
        }
        Some(_) => return None,
    };
    Some((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_gives_host_and_port() {
        for (text, authority) in [
            ("controller.example:7443", "controller.example:7443"),
            ("tls://controller.example:7443", "controller.example:7443"),
            (" tls://10.0.0.1:1/ ", "10.0.0.1:1"),
            ("[2001:db8::1]:7443", "[2001:db8::1]:7443"),
            ("tls://[::1]:7443", "[::1]:7443"),
            ("host_a-b:65535", "host_a-b:65535"),
        ] {
            assert_eq!(given(text).unwrap().authority(), authority, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        for (text, reason) in [
            ("https://a:1", "tls://, not https://"),
            ("http://a", "tls://, not http://"),
            ("a", "names no port"),
            ("tls://a", "names no port"),
            ("[::1]", "names no port"),
            ("2001:db8::1", "names no port"),
            ("::1:7443:zz", "brackets"),
            ("a:0", "HOST:PORT"),
            ("a:65536", "HOST:PORT"),
            ("a:+1", "no place"),
            ("a:x", "HOST:PORT"),
            ("a b:1", "no place"),
            ("a:1\nEVIL=1", "no place"),
            ("$(id):1", "no place"),
            ("u@a:1", "no place"),
            ("a:1/b", "HOST:PORT"),
            ("[a]:1", "HOST:PORT"),
            ("", "HOST:PORT"),
            (":1", "HOST:PORT"),
        ] {
            let error = given(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_configured_address_may_leave_the_port_out() {
        assert_eq!(configured("tls://a.example").unwrap().authority(), "a.example:443");
        assert_eq!(configured("tls://[::1]").unwrap().authority(), "[::1]:443");
        assert_eq!(
            configured("tls://2001:db8::1").unwrap().authority(),
            "[2001:db8::1]:443"
        );
        assert!(configured("a.example:1").is_err());
    }
}
