//! What an operator can do about a reason for having no connection.

/// Advice for a stable code; none where the reason says it all.
pub fn for_code(code: &str) -> Option<&'static str> {
    Some(match code {
        "dial_failed" => {
            "is the address right, does the controller run, and may this host reach it? node-goblin doctor looks"
        }
        "proxy_failed" => "the proxy of HTTPS_PROXY does not connect; NO_PROXY makes an exception",
        "tls_handshake_failed" => {
            "the certificate or the protocol does not suit: is this the controller's TLS port, and is BURROW_GATEWAY_CA_FILE the right authority?"
        }
        "tls_system_roots_unavailable" => "install ca-certificates, or give BURROW_GATEWAY_CA_FILE",
        "no_challenge" => "what listens there is not a controller",
        "connection_closed" | "connection_failed" => {
            "the controller went away; the service comes back to it by itself. If it stays so, look at the controller's log"
        }
        "auth_timeout" => "nobody approved this host in time; the service asks again with a new code by itself",
        "pairing_rejected" => {
            "an operator of the controller rejected this host; the service asks again with a new code"
        }
        "unknown_node" => {
            "the controller does not know this host any more; node-goblin unpair, then connect and have it approved again"
        }
        "auth_failed" => "the shared secret is not the controller's; node-goblin unpair, then enrol or pair again",
        "identity_mismatch" => {
            "the controller knows another key under this id: another host has the id, or this one lost its state. Revoke the id on the controller, or configure another"
        }
        "gateway_identity_conflict" => {
            "another host waits for approval under this id; configure another id, or reject the other"
        }
        "gateway_already_connected" => "another host is connected under this id; give each host an id of its own",
        "controller_identity_mismatch" | "controller_tls_identity_mismatch" => {
            "this is not the controller that approved this host. If it was replaced on purpose: node-goblin unpair, then connect"
        }
        "controller_proof_invalid" => {
            "the controller did not prove that its key belongs to its certificate. Set BURROW_GATEWAY_CONTROLLER_FINGERPRINT or BURROW_GATEWAY_CA_FILE; \
             for a controller of the older kind BURROW_GATEWAY_ALLOW_UNPROVEN_CONTROLLER=1"
        }
        "state_directory_in_use" => "another daemon works on the state directory; stop it",
        "state_directory_exposed" | "state_file_exposed" => {
            "others could read keys: make the file private as the message says"
        }
        "state_file_invalid" => {
            "a file of the state directory can't be read; restore it, or move it away and pair again"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin_protocol::Code;

    #[test]
    fn what_a_controller_refuses_has_advice() {
        for code in [
            Code::UnknownNode,
            Code::AuthFailed,
            Code::IdentityMismatch,
            Code::GatewayIdentityConflict,
            Code::GatewayAlreadyConnected,
            Code::PairingRejected,
            Code::AuthTimeout,
            Code::ControllerIdentityMismatch,
            Code::ControllerTlsIdentityMismatch,
            Code::ControllerProofInvalid,
        ] {
            assert!(for_code(code.as_str()).is_some(), "{}", code.as_str());
        }
        assert_eq!(for_code("no_such_code"), None);
    }
}
