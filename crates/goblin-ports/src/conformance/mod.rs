//! One suite per port, run by every implementation from its own tests. A suite panics where the contract is broken.
//! It must never know which implementation it runs over; `make` returns an empty store each time.

mod operations;
mod secrets;
mod settings;
mod tokens;

pub use operations::operations_suite;
pub use secrets::secrets_suite;
pub use settings::settings_suite;
pub use tokens::tokens_suite;

/// Names that are legal and awkward: quoting, wildcards, case, paths, other scripts, great length.
fn awkward_names() -> Vec<String> {
    [
        "controller.gateway.publicKey.host-1",
        "a'b\"c`d",
        "x'); DROP TABLE settings; --",
        "100%_of*them?",
        "../../etc/passwd",
        "line\nbreak\ttab",
        " leading and trailing ",
        "$1",
        "naïve-名前-🦀",
        "Case",
        "case",
        "e\u{301}",
        "\u{e9}",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([crate::NAME_BYTES_MAX].map(|length| "n".repeat(length)))
    .collect()
}

/// Names that every store refuses.
fn refused_names() -> Vec<String> {
    vec![
        String::new(),
        "nul\0name".to_owned(),
        "n".repeat(crate::NAME_BYTES_MAX + 1),
    ]
}
