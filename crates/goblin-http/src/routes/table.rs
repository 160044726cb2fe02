//! Every route with its handler and its description.

use super::{
    App, agents, controller, dispatch, document, events, gateways, metrics, operations, pairings, targets, tokens,
    trust,
};
use crate::auth::Door;
use crate::openapi::{Doc, Refusals, Routes, STORE, STORED};
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use goblin_api::events::{
    GATEWAY, GatewayEvent, OPERATION, OperationEvent, PAIRING, PairingEvent, RESET, ResetEvent, SNAPSHOT, SnapshotEvent,
};
use goblin_api::routes::{
    AGENT, AGENT_FILESYSTEM, AGENT_PROCESSES, AGENTS, HEALTHZ, LOGIN, LOGOUT, METRICS, OPENAPI, PREFIX, TOKEN, TOKENS,
    template,
};
use goblin_api::{
    AgentAnswer, AgentChange, AgentRequest, AgentsAnswer, ApproveRequest, ControllerAnswer, ControllerChange,
    ControllerRequest, CreateToken, CreatedToken, DispatchAnswer, DispatchErrorLine, Done, EnrolRequest, FileRequest,
    GatewaysAnswer, HealthAnswer, LoginAnswer, LoginRequest, LogoutAnswer, Nothing, OperationAnswer, OperationsAnswer,
    PairingAnswer, PairingsAnswer, ProcessRequest, ResolveAnswer, ResolveRequest, RevokedToken, TargetAnswer,
    TargetRequest, TargetsAnswer, TlsAnswer, TlsRequest, TokensAnswer, TrustAnswer, TrustListing,
};
use std::sync::Arc;

/// A gateway's or a target's id.
const TARGET_ID: Refusals = &[(400, &["target_id_invalid"])];

/// What a target can be refused for.
const TARGET: Refusals = &[(
    400,
    &[
        "target_id_invalid",
        "target_name_required",
        "target_name_invalid",
        "target_base_url_invalid",
    ],
)];

const AGENT_ID: Refusals = &[(400, &["agent_id_invalid"])];

const AGENT_CHANGE: Refusals = &[
    (
        400,
        &[
            "agent_name_required",
            "agent_name_invalid",
            "execution_environment_invalid",
            "provider_id_invalid",
            "target_id_invalid",
            "workspace_root_invalid",
        ],
    ),
    (409, &["gateway_not_approved"]),
];

/// A dispatch that cannot be sent, or whose answer never came.
const DISPATCH: Refusals = &[
    (
        400,
        &[
            "target_id_invalid",
            "operation_id_invalid",
            "trace_context_invalid",
            "request_frame_too_large",
            "operation_correlation_conflict",
        ],
    ),
    (
        503,
        &[
            "gateway_not_connected",
            "gateway_not_ready",
            "gateway_disconnected",
            "controller_stopping",
        ],
    ),
];

/// What a certificate can be refused for, supplied or to be made.
const CERTIFICATE: Refusals = &[(
    400,
    &[
        "controller_tls_credentials_required",
        "tls_text_too_large",
        "tls_key_invalid",
        "tls_key_mismatch",
        "tls_certificate_invalid",
        "tls_certificate_unusable",
        "tls_certificate_expired",
        "tls_certificate_not_yet_valid",
        "tls_ca_invalid",
        "tls_ca_expired",
        "tls_ca_not_yet_valid",
        "tls_configuration_failed",
        "certificate_names_required",
        "certificate_name_invalid",
        "certificate_time_out_of_range",
        "certificate_generation_failed",
    ],
)];

/// All of them.
pub(super) fn routes() -> Routes<App> {
    let below = |template: &str| [PREFIX, template].concat();
    let routes = Routes::new()
        .get(
            HEALTHZ,
            controller::health,
            Doc::open("Tells that the server lives").answers::<HealthAnswer>(),
        )
        .get(OPENAPI, document, Doc::open("This document").answers_object())
        .get(
            METRICS,
            metrics::show,
            Doc::of("Measurements, as Prometheus text").answers_text("text/plain"),
        );
    let routes = listener(operators(routes, &below), &below);
    agents_of(operations_of(routes, &below))
}

/// Those about who may call.
pub(super) fn doors() -> Routes<Arc<Door>> {
    Routes::new()
        .post(
            LOGIN,
            tokens::log_in.layer(DefaultBodyLimit::max(tokens::LOGIN_BODY_MAX)),
            Doc::open("Begins a browser session")
                .body::<LoginRequest>()
                .answers::<LoginAnswer>()
                .refuses(&[
                    (401, &["unauthorized"]),
                    (403, &["host_forbidden", "origin_forbidden"]),
                    (429, &["rate_limited"]),
                ]),
        )
        .post(
            LOGOUT,
            tokens::log_out,
            Doc::of("Ends a browser session").answers::<LogoutAnswer>(),
        )
        .get(
            TOKENS,
            tokens::list,
            Doc::of("Lists the tokens").answers::<TokensAnswer>(),
        )
        .post(
            TOKENS,
            tokens::create,
            Doc::of("Makes a token; its secret is told once")
                .body::<CreateToken>()
                .creates::<CreatedToken>()
                .refuses(&[
                    (
                        400,
                        &["token_name_invalid", "token_scope_invalid", "token_expiry_invalid"],
                    ),
                    (409, &["token_limit_reached"]),
                ])
                .refuses(STORED)
                .refuses(STORE),
        )
        .delete(
            TOKEN,
            tokens::revoke,
            Doc::of("Revokes a token at once")
                .answers::<RevokedToken>()
                .refuses(&[(404, &["not_found"])])
                .refuses(STORED)
                .refuses(STORE),
        )
}

fn operators(routes: Routes<App>, below: &impl Fn(&str) -> String) -> Routes<App> {
    routes
        .get(
            &below(template::TARGETS),
            targets::list,
            Doc::of("Lists the API targets")
                .answers::<TargetsAnswer>()
                .refuses(STORE),
        )
        .post(
            &below(template::TARGETS),
            targets::add,
            Doc::of("Adds an API target")
                .body::<TargetRequest>()
                .creates::<TargetAnswer>()
                .refuses(TARGET)
                .refuses(&[(409, &["api_target_exists"])])
                .refuses(STORED)
                .refuses(STORE),
        )
        .put(
            &below(template::TARGET),
            targets::replace,
            Doc::of("Replaces an API target")
                .body::<TargetRequest>()
                .answers::<TargetAnswer>()
                .refuses(TARGET)
                .refuses(&[(400, &["target_id_immutable"]), (404, &["api_target_not_found"])])
                .refuses(STORED)
                .refuses(STORE),
        )
        .delete(
            &below(template::TARGET),
            targets::remove,
            Doc::of("Removes an API target")
                .answers::<Done>()
                .refuses(TARGET_ID)
                .refuses(&[(404, &["api_target_not_found"])])
                .refuses(STORE),
        )
        .get(
            &below(template::PAIRINGS),
            pairings::list,
            Doc::of("Lists the gateways that asked for approval, oldest first")
                .query("limit", "At most so many, the newest; 1 to 256")
                .answers::<PairingsAnswer>()
                .refuses(STORE),
        )
        .post(
            &below(template::APPROVE),
            pairings::approve,
            Doc::of("Approves a gateway that waits")
                .optional_body::<ApproveRequest>()
                .answers::<PairingAnswer>()
                .refuses(TARGET_ID)
                .refuses(&[
                    (404, &["pairing_not_found"]),
                    (409, &["pairing_not_live", "pairing_code_mismatch"]),
                ])
                .refuses(STORED)
                .refuses(STORE),
        )
        .post(
            &below(template::REJECT),
            pairings::reject,
            Doc::of("Rejects a gateway that waits")
                .optional_body::<Nothing>()
                .answers::<PairingAnswer>()
                .refuses(TARGET_ID)
                .refuses(&[(404, &["pairing_not_found"])])
                .refuses(STORE),
        )
        .get(
            &below(template::TRUST),
            trust::list,
            Doc::of("Lists the trust records")
                .answers::<TrustListing>()
                .refuses(STORE),
        )
        .put(
            &below(template::TRUST_OF),
            trust::enrol,
            Doc::of("Trusts a gateway by a shared secret")
                .body::<EnrolRequest>()
                .answers::<TrustAnswer>()
                .refuses(TARGET_ID)
                .refuses(&[(400, &["gateway_secret_required", "controller_id_invalid"])])
                .refuses(STORED)
                .refuses(STORE),
        )
        .delete(
            &below(template::TRUST_OF),
            trust::revoke,
            Doc::of("Shuts a gateway out at once")
                .answers::<TrustAnswer>()
                .refuses(TARGET_ID)
                .refuses(&[(404, &["not_found"])])
                .refuses(STORED)
                .refuses(STORE),
        )
}

fn listener(routes: Routes<App>, below: &impl Fn(&str) -> String) -> Routes<App> {
    routes
        .get(
            &below(template::CONTROLLER),
            controller::show,
            Doc::of("State of the gateway listener")
                .answers::<ControllerAnswer>()
                .refuses(STORE),
        )
        .put(
            &below(template::CONTROLLER),
            controller::change,
            Doc::of("Changes the gateway listener at once")
                .body::<ControllerRequest>()
                .answers::<ControllerChange>()
                .refuses(&[(400, &["controller_host_invalid", "controller_port_invalid"])])
                .refuses(CERTIFICATE)
                .refuses(STORED)
                .refuses(STORE),
        )
        .put(
            &below(template::CONTROLLER_TLS),
            controller::supply_tls,
            Doc::of("Supplies the listener's certificate")
                .body::<TlsRequest>()
                .answers::<TlsAnswer>()
                .refuses(CERTIFICATE)
                .refuses(STORED)
                .refuses(STORE),
        )
        .delete(
            &below(template::CONTROLLER_TLS),
            controller::forget_tls,
            Doc::of("Forgets the listener's certificate; one that runs makes itself another")
                .answers::<TlsAnswer>()
                .refuses(CERTIFICATE)
                .refuses(STORE),
        )
}

fn operations_of(routes: Routes<App>, below: &impl Fn(&str) -> String) -> Routes<App> {
    routes
        .get(
            &below(template::GATEWAYS),
            gateways::list,
            Doc::of("Lists the gateways").answers::<GatewaysAnswer>().refuses(STORE),
        )
        .post(
            &below(template::PROCESSES),
            dispatch::process,
            process("Runs a process on a gateway"),
        )
        .post(
            &below(template::FILESYSTEM),
            dispatch::filesystem,
            tool("Runs a filesystem tool on a gateway"),
        )
        .post(
            &below(template::CANCEL),
            dispatch::cancel,
            Doc::of("Asks a gateway to cancel an operation")
                .optional_body::<Nothing>()
                .answers::<DispatchAnswer>()
                .refuses(DISPATCH)
                .refuses(STORE),
        )
        .get(
            &below(template::OPERATIONS),
            operations::list,
            Doc::of("Lists the operations in memory, newest last")
                .query("gatewayId", "Only those of this gateway")
                .query(
                    "limit",
                    "At most so many, the newest; held within 1 and 256, 50 unless it is an integer",
                )
                .answers::<OperationsAnswer>(),
        )
        .get(
            &below(template::OPERATION),
            operations::show,
            Doc::of("One operation, on record and in memory")
                .answers::<OperationAnswer>()
                .refuses(&[(400, &["operation_id_invalid"]), (404, &["operation_not_found"])])
                .refuses(STORE),
        )
        .post(
            &below(template::RESOLVE),
            operations::resolve,
            Doc::of("Closes an operation whose outcome is not known, by an operator's word")
                .body::<ResolveRequest>()
                .answers::<ResolveAnswer>()
                .refuses(&[
                    (400, &["operation_id_invalid", "note_invalid"]),
                    (404, &["operation_not_found"]),
                    (409, &["operation_already_terminal"]),
                ])
                .refuses(STORE),
        )
        .get(
            &below(template::EVENTS),
            events::stream,
            Doc::of(
                "Live changes, as Server-Sent Events: first `snapshot`, then `gateway`, `pairing` and `operation`. \
                 Nothing is replayed: whatever `Last-Event-ID` says, a stream begins with the state as it is then. \
                 A client that reads too slowly gets `reset` as its last event",
            )
            .answers_events(&[SNAPSHOT, GATEWAY, PAIRING, OPERATION, RESET])
            .mentions::<SnapshotEvent>()
            .mentions::<GatewayEvent>()
            .mentions::<PairingEvent>()
            .mentions::<OperationEvent>()
            .mentions::<ResetEvent>()
            .refuses(&[(503, &["too_many_streams", "controller_stopping"])])
            .refuses(STORE),
        )
}

fn agents_of(routes: Routes<App>) -> Routes<App> {
    routes
        .get(
            AGENTS,
            agents::list,
            Doc::of("Lists the agents").answers::<AgentsAnswer>().refuses(STORE),
        )
        .post(
            AGENTS,
            agents::add,
            Doc::of("Adds an agent")
                .body::<AgentRequest>()
                .creates::<AgentAnswer>()
                .refuses(AGENT_ID)
                .refuses(AGENT_CHANGE)
                .refuses(&[(409, &["agent_exists"])])
                .refuses(STORED)
                .refuses(STORE),
        )
        .patch(
            AGENT,
            agents::change,
            Doc::of("Changes an agent, or where its work is carried out")
                .body::<AgentChange>()
                .answers::<AgentAnswer>()
                .refuses(AGENT_ID)
                .refuses(AGENT_CHANGE)
                .refuses(&[(404, &["agent_not_found"])])
                .refuses(STORED)
                .refuses(STORE),
        )
        .post(
            AGENT_PROCESSES,
            dispatch::agent_process,
            assigned(process(
                "Runs a process where an agent is assigned, by default in its workspace root",
            )),
        )
        .post(
            AGENT_FILESYSTEM,
            dispatch::agent_filesystem,
            assigned(tool(
                "Runs a filesystem tool where an agent is assigned, by default in its workspace root",
            )),
        )
}

fn process(summary: &'static str) -> Doc {
    Doc::of(summary)
        .query(
            "cancelOnDisconnect",
            "`true` cancels the operation when the client goes away before the answer",
        )
        .body::<ProcessRequest>()
        .answers::<DispatchAnswer>()
        .or_lines::<DispatchErrorLine>()
        .refuses(DISPATCH)
        .refuses(STORED)
        .refuses(STORE)
}

fn tool(summary: &'static str) -> Doc {
    Doc::of(summary)
        .body::<FileRequest>()
        .answers::<DispatchAnswer>()
        .refuses(DISPATCH)
        .refuses(STORED)
        .refuses(STORE)
}

fn assigned(doc: Doc) -> Doc {
    doc.refuses(AGENT_ID)
        .refuses(&[(404, &["agent_not_found"]), (409, &["agent_not_remote"])])
}
