//! Request and response types of the HTTP API, shared by server and CLI.
