//! The HTTP API over a controller: routes, validation, codes and statuses, and the server on a Unix socket.
//!
//! [`router`] is the API without a caller's identity: whoever serves it decides who may call. The Unix socket lets its
//! owner in, and the file system is the authentication; other doors add their own layers around the same router.
//!
//! It must never know a gateway's protocol beyond passing envelopes on, nor hold a rule of pairing or dispatch.

mod answer;
mod body;
mod connections;
mod events;
mod openapi;
mod query;
mod routes;
mod server;
mod socket;
#[cfg(test)]
mod tests;

pub use routes::router;
pub use server::{ServeError, Server, serve_unix};
pub use socket::ReachablePath;
