//! The HTTP API over a controller: routes, validation, codes and statuses, and the server on a Unix socket and on TCP.
//!
//! [`router`] is the API without a caller's identity: whoever serves it decides who may call. [`serve`] puts it behind
//! one door, where the Unix socket lets its owner in, since the file system is the authentication there, and TCP those
//! with a token.
//!
//! It must never know a gateway's protocol beyond passing envelopes on, nor hold a rule of pairing or dispatch.

mod answer;
mod audit;
mod auth;
mod body;
mod connection;
mod connections;
mod events;
mod limits;
mod openapi;
mod query;
mod routes;
mod server;
mod socket;
mod tcp;
#[cfg(test)]
mod tests;

pub use audit::{AUDIT_FILE, AuditLog};
pub use routes::router;
pub use server::{ServeError, Server, Service, serve};
pub use socket::ReachablePath;
pub use tcp::{HttpOptions, HttpTls};
