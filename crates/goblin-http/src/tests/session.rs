//! The routes in the order in which an operator uses them.

use super::gateway::Gateway;
use super::{Fixture, SECRET, exec};
use goblin_api::routes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn a_host_is_paired_used_and_revoked() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    assert_eq!(client.get("/pairings").await, json!({"ok": true, "pairings": []}));
    assert_eq!(client.get("/gateways").await, json!({"ok": true, "gateways": []}));

    let mut gateway = Gateway::dial(&fixture.controller).await;
    let pending = gateway.stranger("worker").await;
    let listed = client.get("/pairings?limit=5").await;
    let pairing = &listed["pairings"][0];
    assert_eq!(
        (&pairing["gatewayId"], &pairing["live"]),
        (&json!("worker"), &json!(true))
    );
    assert_eq!(pairing["pairingCode"], pending["pairingCode"]);
    assert!(
        pairing["longPairingCode"]
            .as_str()
            .unwrap()
            .starts_with(pending["pairingCode"].as_str().unwrap())
    );
    assert_eq!(client.get("/gateways").await["gateways"][0]["status"], "pending");
    let (status, answer) = client.post("/gateways/worker/processes", exec("op-1")).await;
    assert_eq!(
        (status, answer),
        (
            StatusCode::SERVICE_UNAVAILABLE,
            json!({"ok": false, "error": "gateway_not_ready"})
        )
    );

    let wrong = json!({"pairingCode": "0000-0000-0000"});
    let (status, answer) = client.post("/pairings/worker/approve", wrong).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::CONFLICT, &json!("pairing_code_mismatch"))
    );
    let right = json!({"pairingCode": pending["pairingCode"]});
    let (status, answer) = client.post("/pairings/worker/approve", right).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        answer,
        json!({"ok": true, "pairing": {"gatewayId": "worker", "controllerId": "controller",
               "pairingCode": pending["pairingCode"], "status": "approved", "trusted": true}})
    );
    assert_eq!(gateway.receive().await.unwrap()["type"], "auth.ok");
    let trusted = json!({"gatewayId": "worker", "controllerId": "controller", "status": "approved", "approved": true,
                         "revoked": false, "trusted": true, "method": "ed25519"});
    assert_eq!(
        client.get("/gateway-trust").await,
        json!({"ok": true, "gateways": [trusted]})
    );

    let (answer, request) = tokio::join!(client.post("/gateways/worker/processes", exec("op-1")), async {
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        gateway.output(&request, 1, "out").await;
        gateway.end(&request).await;
        request
    });
    let (status, answer) = answer;
    assert_eq!((status, &answer["operationId"]), (StatusCode::OK, &json!("op-1")));
    let dispatch: goblin_api::DispatchAnswer = serde_json::from_value(answer).unwrap();
    assert_eq!(dispatch.dispatch.events.len(), 1);
    let response: Value = serde_json::from_str(dispatch.dispatch.response.get()).unwrap();
    assert_eq!(
        (&response["requestId"], &response["ok"]),
        (&request["id"], &json!(true))
    );

    let listed = client.get("/operations").await;
    assert_eq!(
        (&listed["limit"], listed["operations"].as_array().unwrap().len()),
        (&json!(50), 1)
    );
    let activity = &listed["operations"][0];
    assert_eq!(
        (&activity["state"], &activity["terminalOutcome"]),
        (&json!("terminal"), &json!("completed"))
    );
    assert_eq!(client.get("/operations?gatewayId=other").await["operations"], json!([]));

    let (status, answer) = client.json(Method::DELETE, "/gateway-trust/worker", &Value::Null).await;
    assert_eq!(
        (status, &answer["gateway"]["revoked"], &answer["restartRequired"]),
        (StatusCode::OK, &json!(true), &json!(false))
    );
    assert_eq!(gateway.receive().await, None);
    let (status, answer) = client.json(Method::DELETE, "/gateway-trust/nobody", &Value::Null).await;
    assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("not_found")));
}

#[tokio::test]
async fn a_rejection_is_told_to_both_sides() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let mut gateway = Gateway::dial(&fixture.controller).await;
    let pending = gateway.stranger("worker").await;
    let (status, answer) = client.post("/pairings/worker/reject", Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        answer["pairing"],
        json!({"gatewayId": "worker", "controllerId": "controller", "pairingCode": pending["pairingCode"], "status": "rejected"})
    );
    assert_eq!(gateway.receive().await.unwrap()["error"]["code"], "pairing_rejected");
    for verb in ["approve", "reject"] {
        let (status, answer) = client.post(&format!("/pairings/worker/{verb}"), Value::Null).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::NOT_FOUND, &json!("pairing_not_found"))
        );
    }
}

#[tokio::test]
async fn an_enrolment_never_gives_its_secret_back() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let body = json!({"secret": SECRET, "controllerId": "main"});
    let (status, answer) = client.json(Method::PUT, "/gateway-trust/worker", &body).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&answer["gateway"]["method"], &answer["gateway"]["controllerId"]),
        (&json!("hmac"), &json!("main"))
    );
    let mut shown = answer.to_string();
    for path in ["/gateway-trust", "/gateways", "/controller", "/pairings", "/operations"] {
        shown.push_str(&client.get(path).await.to_string());
    }
    assert!(!shown.contains(SECRET));
    for (body, code) in [
        (json!({}), "gateway_secret_required"),
        (json!({"secret": 5}), "gateway_secret_required"),
        (json!({"secret": " "}), "gateway_secret_required"),
        (json!({"secret": "s", "controllerId": 5}), "controller_id_invalid"),
        (json!({"secret": "s", "controllerId": " "}), "controller_id_invalid"),
    ] {
        let (status, answer) = client.json(Method::PUT, "/gateway-trust/worker", &body).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{body}"
        );
    }
    fixture.store.fail_write_after(0);
    let (status, answer) = client.json(Method::PUT, "/gateway-trust/worker", &body).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("store_unavailable"))
    );
}

#[tokio::test]
async fn the_listener_tells_its_state() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let state = client.get("/controller").await;
    let address = fixture.controller.tls_address().unwrap();
    let controller = &state["controller"];
    assert_eq!(
        (&controller["port"], &controller["running"]),
        (&json!(address.port()), &json!(true))
    );
    assert_eq!(controller["tls"]["source"], "generated");
    assert_eq!(controller["tls"]["fingerprintSha256"].as_str().unwrap().len(), 64);
    assert!(serde_json::from_value::<goblin_api::ControllerAnswer>(state).is_ok());
}

#[tokio::test]
async fn the_listener_and_its_certificate_are_changed_by_route() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    for (body, code) in [
        (json!({"host": "127.0.0.1", "port": 7443}), "invalid_request"),
        (
            json!({"enabled": true, "host": 5, "port": 7443}),
            "controller_host_invalid",
        ),
        (
            json!({"enabled": true, "host": " ", "port": 7443}),
            "controller_host_invalid",
        ),
        (
            json!({"enabled": true, "host": "x".repeat(256), "port": 7443}),
            "controller_host_invalid",
        ),
        (
            json!({"enabled": true, "host": "127.0.0.1", "port": 0}),
            "controller_port_invalid",
        ),
        (
            json!({"enabled": true, "host": "127.0.0.1", "port": 65536}),
            "controller_port_invalid",
        ),
        (
            json!({"enabled": true, "host": "127.0.0.1", "port": 1.5}),
            "controller_port_invalid",
        ),
        (
            json!({"enabled": true, "host": "127.0.0.1", "port": "7443"}),
            "controller_port_invalid",
        ),
    ] {
        let (status, answer) = client.json(Method::PUT, "/controller", &body).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{body}"
        );
    }
    // Applies at once, whatever address the controller started with.
    let body = json!({"enabled": false, "host": "127.0.0.1", "port": 7443});
    let (status, answer) = client.json(Method::PUT, "/controller", &body).await;
    assert_eq!((status, &answer["restartRequired"]), (StatusCode::OK, &json!(false)));
    assert_eq!(answer["controller"]["running"], false);
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let body = json!({"enabled": true, "host": "127.0.0.1", "port": free});
    let (status, answer) = client.json(Method::PUT, "/controller", &body).await;
    assert_eq!(
        (status, &answer["controller"]["running"]),
        (StatusCode::OK, &json!(true))
    );
    assert_eq!(fixture.controller.tls_address().unwrap().port(), free);

    let generated = client.get("/controller").await["controller"]["tls"]["fingerprintSha256"].clone();
    for (body, code) in [
        (json!({}), "controller_tls_credentials_required"),
        (json!({"key": "", "cert": ""}), "controller_tls_credentials_required"),
        (json!({"key": "rubbish", "cert": "rubbish"}), "tls_certificate_invalid"),
    ] {
        let (status, answer) = client.json(Method::PUT, "/controller/tls", &body).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{body}"
        );
    }
    let now = std::time::SystemTime::now();
    let made = goblin_keys::certificate::generate("given", &["given".to_owned()], now).unwrap();
    let body = json!({"key": *made.key_pem, "cert": made.cert_pem, "ca": ""});
    let (status, answer) = client.json(Method::PUT, "/controller/tls", &body).await;
    assert_eq!(
        (status, answer),
        (StatusCode::OK, json!({"ok": true, "restartRequired": false}))
    );
    let tls = client.get("/controller").await["controller"]["tls"].clone();
    assert_eq!(
        (&tls["source"], &tls["caConfigured"]),
        (&json!("configured"), &json!(false))
    );
    assert!(!tls.to_string().contains("PRIVATE"));
    let (status, _) = client.json(Method::DELETE, "/controller/tls", &Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    let tls = client.get("/controller").await["controller"]["tls"].clone();
    assert!(tls["source"] == "generated" && tls["fingerprintSha256"] != generated);
}

#[tokio::test]
async fn paths_of_the_client_are_paths_of_the_server() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    for (method, path) in [
        (Method::GET, routes::controller()),
        (Method::PUT, routes::controller()),
        (Method::PUT, routes::controller_tls()),
        (Method::DELETE, routes::controller_tls()),
        (Method::GET, routes::pairings()),
        (Method::POST, routes::approve("g")),
        (Method::POST, routes::reject("g")),
        (Method::GET, routes::trust()),
        (Method::PUT, routes::trust_of("g")),
        (Method::DELETE, routes::trust_of("g")),
        (Method::GET, routes::gateways()),
        (Method::GET, routes::operations(Some("g"), Some(3))),
        (Method::POST, routes::processes("g", true)),
        (Method::POST, routes::filesystem("g")),
        (Method::POST, routes::cancel("g", "op:1")),
    ] {
        let below = path.strip_prefix(routes::PREFIX).unwrap();
        let (status, answer) = client.json(method, below, &Value::Null).await;
        // Not found as a route, that is; a gateway that is not known is another matter.
        let unknown_route = status == StatusCode::NOT_FOUND && !below.contains("pairings") && !below.contains("trust");
        assert!(
            !unknown_route && status != StatusCode::METHOD_NOT_ALLOWED,
            "{path}: {status} {answer}"
        );
    }
}
