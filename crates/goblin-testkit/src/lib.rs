//! What tests share: temporary controllers and gateways, peers, waiting. Never shipped.
