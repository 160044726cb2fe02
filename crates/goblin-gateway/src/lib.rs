//! The host daemon: request, decision, run, evidence, journal, response; the outbound connection.
