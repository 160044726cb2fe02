//! Key pairs, signatures, HMAC, certificates, the pinning verifier and the TLS configurations.
