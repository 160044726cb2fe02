//! Which proxy the environment asks for.

use crate::gateway::address::address;
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use goblin_gateway::dial::Proxy;
use zeroize::Zeroizing;

/// Port of a proxy whose address names none.
const PORT_DEFAULT: u16 = 8080;

/// The proxy for a host by `HTTPS_PROXY` and `NO_PROXY`, in either case of letters.
pub fn for_host(host: &str, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Option<Proxy>> {
    let either = |upper: &str| {
        variable(upper)
            .or_else(|| variable(&upper.to_lowercase()))
            .filter(|value| !value.trim().is_empty())
    };
    let Some(url) = either("HTTPS_PROXY") else {
        return Ok(None);
    };
    if either("NO_PROXY").is_some_and(|list| excluded(host, &list)) {
        return Ok(None);
    }
    let rest = match url.trim().split_once("://") {
        Some(("http", rest)) => rest,
        None => url.trim(),
        // The address may hold a password, so it is not repeated.
        Some((scheme, _)) => bail!("HTTPS_PROXY: only http:// proxies are supported, not {scheme}://"),
    };
    let rest = rest.trim_end_matches('/');
    let (credentials, authority) = match rest.rsplit_once('@') {
        Some((credentials, authority)) => (Some(credentials), authority),
        None => (None, rest),
    };
    let address = address(authority, PORT_DEFAULT).context("HTTPS_PROXY is not http://[USER:PASSWORD@]HOST[:PORT]")?;
    let authorization = credentials.map(|text| Zeroizing::new(STANDARD.encode(Zeroizing::new(percent_decoded(text)))));
    Ok(Some(Proxy { address, authorization }))
}

/// True when `NO_PROXY` names the host: itself, a domain above it, or everything.
fn excluded(host: &str, list: &str) -> bool {
    list.split([',', ' '])
        .map(|entry| entry.trim().trim_start_matches("*.").trim_start_matches('.'))
        .filter(|entry| !entry.is_empty())
        .any(|entry| {
            let entry = entry.trim_start_matches('[').trim_end_matches(']');
            let above = host.len() > entry.len() && host[host.len() - entry.len()..].eq_ignore_ascii_case(entry);
            entry == "*"
                || host.eq_ignore_ascii_case(entry)
                || (above && host.as_bytes()[host.len() - entry.len() - 1] == b'.')
        })
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(host: &str, variables: &[(&str, &str)]) -> anyhow::Result<Option<Proxy>> {
        for_host(host, &|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_names_a_proxy() {
        let found = proxy("c.example", &[("https_proxy", "http://user:p%40ss@proxy:3128/")])
            .unwrap()
            .unwrap();
        assert_eq!((found.address.host.as_str(), found.address.port), ("proxy", 3128));
        assert_eq!(
            found.authorization.as_deref().map(String::as_str),
            Some(STANDARD.encode("user:p@ss").as_str())
        );
        assert_eq!(
            proxy("c", &[("HTTPS_PROXY", "proxy")]).unwrap().unwrap().address.port,
            8080
        );
        assert!(proxy("c", &[("HTTPS_PROXY", " ")]).unwrap().is_none());
        assert!(!format!("{:?}", proxy("c", &[("HTTPS_PROXY", "http://u:secret@p")])).contains("secret"));
        let fault = proxy("c", &[("HTTPS_PROXY", "socks5://u:secret@p")])
            .unwrap_err()
            .to_string();
        assert!(fault.contains("socks5") && !fault.contains("secret"));
        assert!(proxy("c", &[("HTTPS_PROXY", "http://p:port")]).is_err());
    }

    #[test]
    fn no_proxy_names_hosts_and_domains() {
        for (list, excluded) in [
            ("c.example", true),
            ("example", true),
            (".example", true),
            ("*.example", true),
            ("*", true),
            ("a, C.EXAMPLE", true),
            ("xample", false),
            ("d.example", false),
            ("", false),
        ] {
            assert_eq!(
                proxy("c.example", &[("HTTPS_PROXY", "p"), ("NO_PROXY", list)])
                    .unwrap()
                    .is_none(),
                excluded,
                "{list}"
            );
        }
    }
}
