//! From the controller's name to its certificate.

use super::{Finding, Verdict};
use crate::host::observation::Trust;
use crate::host::settings::Settings;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use goblin_gateway::dial::{Address, DialError, dial};
use goblin_keys::Fingerprint;
use goblin_keys::certificate::{CertificateError, check_ca};
use goblin_keys::tls::{ClientTls, ClientTrust};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

const DNS: &str = "dns";
const TCP: &str = "tcp";
const TLS: &str = "tls";

/// Time for each of: name resolution, one TCP connection.
const STEP: Duration = Duration::from_secs(5);

/// Time for a controller to hang up in its turn.
const FAREWELL: Duration = Duration::from_secs(1);

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Resolves, connects, shakes hands, and compares what was seen with what is trusted.
pub async fn check(settings: &Settings, address: &Address, trust: &Trust, findings: &mut Vec<Finding>) {
    let first = findings.len();
    if let Some(addresses) = resolve(address, findings).await
        && connect(address, &addresses, findings).await
    {
        tls(settings, address, trust, findings).await;
    }
    if let Some(proxy) = ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .find(|name| settings.get(name).is_some())
    {
        // What fails on the direct way may well work through the proxy.
        for finding in &mut findings[first..] {
            finding.verdict = finding.verdict.min(Verdict::Warning);
        }
        findings.push(Finding::warning(
            "proxy",
            format!(
                "the service goes through {proxy}; the looks at {} above went past it",
                address.host
            ),
            "node-goblin status tells what the service itself meets",
        ));
    }
}

async fn resolve(address: &Address, findings: &mut Vec<Finding>) -> Option<Vec<SocketAddr>> {
    if let Ok(ip) = address.host.parse::<IpAddr>() {
        findings.push(Finding::ok(DNS, format!("{ip} needs none")));
        return Some(vec![SocketAddr::new(ip, address.port)]);
    }
    let looked_up = timeout(STEP, lookup_host((address.host.as_str(), address.port)))
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 5 s")));
    let mut found: Vec<SocketAddr> = match looked_up {
        Ok(found) => found.take(ADDRESSES_MAX).collect(),
        Err(error) => {
            findings.push(Finding::fault(
                DNS,
                format!("{} can't be resolved: {error}", address.host),
                "is the name right? Look at /etc/resolv.conf and /etc/hosts, or configure the controller's IP address",
            ));
            return None;
        }
    };
    found.dedup();
    let list: Vec<String> = found.iter().map(|socket| socket.ip().to_string()).collect();
    findings.push(Finding::ok(DNS, format!("{} is {}", address.host, list.join(", "))));
    Some(found)
}

async fn connect(address: &Address, addresses: &[SocketAddr], findings: &mut Vec<Finding>) -> bool {
    let (mut reached, mut failed) = (Vec::new(), Vec::new());
    for socket in addresses {
        match timeout(STEP, TcpStream::connect(socket)).await {
            Ok(Ok(_)) => reached.push(socket.to_string()),
            Ok(Err(error)) => failed.push(format!("{socket}: {error}")),
            Err(_) => failed.push(format!("{socket}: no answer within 5 s")),
        }
    }
    let refused = failed.iter().any(|reason| reason.contains("refused"));
    let remedy = if refused {
        "nothing listens there: does the controller run, and is the port right?"
    } else {
        "is a firewall or a missing route in between? The host must reach the controller by TCP"
    };
    match (reached.is_empty(), failed.is_empty()) {
        (true, _) => findings.push(Finding::fault(
            TCP,
            format!("{} can't be reached: {}", address.authority(), failed.join("; ")),
            remedy,
        )),
        (false, true) => findings.push(Finding::ok(TCP, format!("{} answers", reached.join(", ")))),
        (false, false) => findings.push(Finding::warning(
            TCP,
            format!("{} answers; not so {}", reached.join(", "), failed.join("; ")),
            "the service may lose time with the address that does not answer",
        )),
    }
    !reached.is_empty()
}

async fn tls(settings: &Settings, address: &Address, trust: &Trust, findings: &mut Vec<Finding>) {
    let read = |variable| {
        settings
            .file(variable)
            .and_then(|path| std::fs::read_to_string(path).ok())
    };
    let client = read("BURROW_GATEWAY_CERT_FILE").zip(read("BURROW_GATEWAY_KEY_FILE").map(zeroize::Zeroizing::new));
    let meet = async |trust: &ClientTrust| -> Result<(Fingerprint, Vec<u8>), DialError> {
        let pair = client.as_ref().map(|(cert, key)| (cert.as_str(), key.as_str()));
        let (mut stream, leaf) = dial(address, None, &ClientTls::new(trust, pair)?).await?;
        let der = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let der = der.map(|der| der.to_vec()).unwrap_or_default();
        // Leaves as one should: what the controller has said already, left unread, would be a reset to it.
        let _ = timeout(FAREWELL, async {
            stream.shutdown().await?;
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
        })
        .await;
        Ok((leaf.fingerprint, der))
    };
    let (seen, der) = match meet(&ClientTrust::Unverified).await {
        Ok(met) => met,
        Err(error) => {
            findings.push(Finding::fault(
                TLS,
                error.to_string(),
                "is this the controller's TLS port? What listens there may be something else, or ask for a client certificate",
            ));
            return;
        }
    };
    findings.push(Finding::ok(TLS, format!("the certificate's SHA-256 is {seen}")));
    let ca = read("BURROW_GATEWAY_CA_FILE");
    let anchored = match (ca, trust.secret) {
        (Some(pem), _) => Some((ClientTrust::Ca { pem }, "BURROW_GATEWAY_CA_FILE")),
        (None, true) => Some((ClientTrust::SystemRoots, "the system's authorities")),
        (None, false) => None,
    };
    dates(&der, anchored.is_some(), findings);
    expected(settings, seen, findings);
    if let Some((anchor, name)) = &anchored {
        match meet(anchor).await {
            Ok(_) => findings.push(Finding::ok(TLS, format!("it passes {name}"))),
            Err(error) => findings.push(Finding::fault(
                TLS,
                format!("it does not pass {name}: {error}"),
                "give the authority that signed it in BURROW_GATEWAY_CA_FILE, and connect by a name that it holds",
            )),
        }
    }
    match trust.pinned {
        Some(pinned) if pinned == seen => findings.push(Finding::ok(TLS, "it is the pinned one")),
        Some(pinned) => findings.push(Finding::fault(
            TLS,
            format!("the pinned certificate is another: {pinned}"),
            "a controller that renewed its certificate proves it by itself, and the pin follows. Otherwise this is another controller: \
             if on purpose, node-goblin unpair and connect; if not, somebody is in between",
        )),
        None if anchored.is_none() => findings.push(Finding::ok(
            TLS,
            "nothing is pinned yet; compare the fingerprint with the controller's own",
        )),
        None => {}
    }
}

/// Whether the certificate is valid by this host's clock. Where a pin decides, dates do not matter.
fn dates(der: &[u8], matters: bool, findings: &mut Vec<Finding>) {
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    // 48 bytes are a line of 64 letters.
    for line in der.chunks(48) {
        pem.push_str(&STANDARD.encode(line));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    let (seen, remedy) = match check_ca(&pem, SystemTime::now()) {
        Err(CertificateError::Expired(_)) => (
            "the certificate has expired by this host's clock",
            "renew it on the controller; if it is valid, set this host's clock: timedatectl",
        ),
        Err(CertificateError::NotYetValid(_)) => (
            "the certificate is not valid yet by this host's clock",
            "this host's clock is behind, or the controller's was ahead when it made it: timedatectl",
        ),
        _ => return,
    };
    findings.push(if matters {
        Finding::fault(TLS, seen, remedy)
    } else {
        Finding::warning(TLS, seen, remedy)
    });
}

/// Compares with the fingerprint that the operator configured.
fn expected(settings: &Settings, seen: Fingerprint, findings: &mut Vec<Finding>) {
    let variable = "BURROW_GATEWAY_CONTROLLER_FINGERPRINT";
    let Some(text) = settings.get(variable) else { return };
    match text.parse::<Fingerprint>() {
        Ok(wanted) if wanted == seen => findings.push(Finding::ok(TLS, format!("it is the one of {variable}"))),
        Ok(wanted) => findings.push(Finding::fault(
            TLS,
            format!("{variable} names another: {wanted}"),
            "compare with the controller's own; correct the variable only if the controller shows the fingerprint above",
        )),
        Err(error) => findings.push(Finding::fault(TLS, format!("{variable}: {error}"), "correct it, or remove the line")),
    }
}
