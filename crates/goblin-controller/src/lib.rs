//! Listener, registry, dispatch, liveness, pairing, trust, activity, correlation.
