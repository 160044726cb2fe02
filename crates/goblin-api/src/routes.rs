//! Paths of the API: templates for the server, builders for clients. Ids are percent-encoded as one segment.

/// What every path of the API begins with.
pub const PREFIX: &str = "/api/mods/node-goblin";

/// Liveness of the server itself; outside the prefix.
pub const HEALTHZ: &str = "/healthz";

/// The document that describes the API; outside the prefix.
pub const OPENAPI: &str = "/openapi.json";

/// Measurements, as Prometheus text; outside the prefix.
pub const METRICS: &str = "/metrics";

/// Agents; outside the prefix, where other homes have them.
pub const AGENTS: &str = "/api/agents";

/// One agent.
pub const AGENT: &str = "/api/agents/{agent_id}";

/// Runs a process where an agent is assigned.
pub const AGENT_PROCESSES: &str = "/api/agents/{agent_id}/processes";

/// Runs a filesystem tool where an agent is assigned.
pub const AGENT_FILESYSTEM: &str = "/api/agents/{agent_id}/filesystem";

/// POST: begins a browser session; outside the prefix.
pub const LOGIN: &str = "/api/login";

/// POST: ends it.
pub const LOGOUT: &str = "/api/logout";

/// GET: tokens. POST: makes one.
pub const TOKENS: &str = "/api/tokens";

/// Template of one token.
pub const TOKEN: &str = "/api/tokens/{token_id}";

/// DELETE: revokes a token.
pub fn token(token_id: &str) -> String {
    format!("{TOKENS}/{}", segment(token_id))
}

/// Templates below [`PREFIX`], in the router's notation.
pub mod template {
    /// API targets.
    pub const TARGETS: &str = "/targets";
    /// One API target.
    pub const TARGET: &str = "/targets/{id}";
    /// State of the gateway listener.
    pub const CONTROLLER: &str = "/controller";
    /// The listener's certificate.
    pub const CONTROLLER_TLS: &str = "/controller/tls";
    /// Gateways that wait for approval.
    pub const PAIRINGS: &str = "/pairings";
    /// Approves one.
    pub const APPROVE: &str = "/pairings/{gateway_id}/approve";
    /// Rejects one.
    pub const REJECT: &str = "/pairings/{gateway_id}/reject";
    /// Trust records.
    pub const TRUST: &str = "/gateway-trust";
    /// One trust record.
    pub const TRUST_OF: &str = "/gateway-trust/{gateway_id}";
    /// Connections.
    pub const GATEWAYS: &str = "/gateways";
    /// Activity.
    pub const OPERATIONS: &str = "/operations";
    /// One operation.
    pub const OPERATION: &str = "/operations/{operation_id}";
    /// Closes an operation by an operator's word.
    pub const RESOLVE: &str = "/operations/{operation_id}/resolve";
    /// Live changes.
    pub const EVENTS: &str = "/events";
    /// Runs a process.
    pub const PROCESSES: &str = "/gateways/{gateway_id}/processes";
    /// Runs a filesystem tool.
    pub const FILESYSTEM: &str = "/gateways/{gateway_id}/filesystem";
    /// Cancels an operation.
    pub const CANCEL: &str = "/gateways/{gateway_id}/operations/{operation_id}/cancel";
}

/// GET: API targets. POST adds one.
pub fn targets() -> String {
    [PREFIX, template::TARGETS].concat()
}

/// PUT replaces a target, DELETE removes it.
pub fn target(id: &str) -> String {
    format!("{PREFIX}/targets/{}", segment(id))
}

/// GET: state of the gateway listener. PUT: changes it.
pub fn controller() -> String {
    [PREFIX, template::CONTROLLER].concat()
}

/// PUT supplies the listener's certificate, DELETE forgets it.
pub fn controller_tls() -> String {
    [PREFIX, template::CONTROLLER_TLS].concat()
}

/// GET: gateways that wait for approval.
pub fn pairings() -> String {
    [PREFIX, template::PAIRINGS].concat()
}

/// POST: approves a gateway that waits.
pub fn approve(gateway_id: &str) -> String {
    format!("{PREFIX}/pairings/{}/approve", segment(gateway_id))
}

/// POST: rejects a gateway that waits.
pub fn reject(gateway_id: &str) -> String {
    format!("{PREFIX}/pairings/{}/reject", segment(gateway_id))
}

/// GET: trust records.
pub fn trust() -> String {
    [PREFIX, template::TRUST].concat()
}

/// PUT enrols with a shared secret, DELETE revokes.
pub fn trust_of(gateway_id: &str) -> String {
    format!("{PREFIX}/gateway-trust/{}", segment(gateway_id))
}

/// GET: connections.
pub fn gateways() -> String {
    [PREFIX, template::GATEWAYS].concat()
}

/// GET: activity, newest last, narrowed to a gateway and to so many records where given.
pub fn operations(gateway_id: Option<&str>, limit: Option<u32>) -> String {
    let mut query = Vec::new();
    query.extend(gateway_id.map(|id| format!("gatewayId={}", segment(id))));
    query.extend(limit.map(|limit| format!("limit={limit}")));
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{PREFIX}{}{mark}{}", template::OPERATIONS, query.join("&"))
}

/// GET: one operation, on record and in memory.
pub fn operation(operation_id: &str) -> String {
    format!("{PREFIX}/operations/{}", segment(operation_id))
}

/// POST: closes an operation whose outcome cannot be known any more.
pub fn resolve(operation_id: &str) -> String {
    format!("{PREFIX}/operations/{}/resolve", segment(operation_id))
}

/// GET: live changes, as Server-Sent Events.
pub fn events() -> String {
    [PREFIX, template::EVENTS].concat()
}

/// GET: agents. POST adds one.
pub fn agents() -> String {
    AGENTS.to_owned()
}

/// PATCH changes an agent.
pub fn agent(agent_id: &str) -> String {
    format!("{AGENTS}/{}", segment(agent_id))
}

/// POST: runs a process where the agent is assigned. `cancel_on_disconnect` as for [`processes`].
pub fn agent_processes(agent_id: &str, cancel_on_disconnect: bool) -> String {
    let query = if cancel_on_disconnect {
        "?cancelOnDisconnect=true"
    } else {
        ""
    };
    format!("{AGENTS}/{}/processes{query}", segment(agent_id))
}

/// POST: runs a filesystem tool where the agent is assigned.
pub fn agent_filesystem(agent_id: &str) -> String {
    format!("{AGENTS}/{}/filesystem", segment(agent_id))
}

/// POST: runs a process. With `cancel_on_disconnect` the operation is cancelled when the client goes away before the
/// answer; otherwise it goes on.
pub fn processes(gateway_id: &str, cancel_on_disconnect: bool) -> String {
    let query = if cancel_on_disconnect {
        "?cancelOnDisconnect=true"
    } else {
        ""
    };
    format!("{PREFIX}/gateways/{}/processes{query}", segment(gateway_id))
}

/// POST: runs a filesystem tool.
pub fn filesystem(gateway_id: &str) -> String {
    format!("{PREFIX}/gateways/{}/filesystem", segment(gateway_id))
}

/// POST: cancels an operation.
pub fn cancel(gateway_id: &str, operation_id: &str) -> String {
    format!(
        "{PREFIX}/gateways/{}/operations/{}/cancel",
        segment(gateway_id),
        segment(operation_id)
    )
}

/// A text as one path segment or query value: everything but RFC 3986's unreserved characters is percent-encoded, and
/// `.` and `..`, which clients resolve away, are encoded whole.
pub fn segment(text: &str) -> String {
    let dots = matches!(text, "." | "..");
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if !dots && (byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
