//! Addresses as people write them.

use goblin_gateway::dial::Address;

/// `HOST[:PORT]` or `[IPV6][:PORT]`.
pub fn address(text: &str, default_port: u16) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (
                host,
                if after.is_empty() {
                    None
                } else {
                    Some(after.strip_prefix(':')?)
                },
            )
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            Some(_) => (text, None),
            None => (text, None),
        },
    };
    let port = port.map_or(Some(default_port), |port| port.parse().ok().filter(|&port| port != 0))?;
    let plain = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':'));
    plain.then(|| Address {
        host: host.to_owned(),
        port,
    })
}
