//! Agents, and dispatches where they are assigned.

use super::Fixture;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

const AGENTS: &str = "/api/agents";

fn remote(gateway_id: &str, root: &str) -> Value {
    json!({"kind": "remote", "providerId": "node-goblin", "targetId": gateway_id, "workspaceRoot": root})
}

#[tokio::test]
async fn work_goes_where_the_agent_is_assigned() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let (status, answer) = client.post(AGENTS, json!({"id": "builder"})).await;
    let agent = json!({"id": "builder", "name": "builder", "executionEnvironment": null});
    assert_eq!((status, &answer["agent"]), (StatusCode::CREATED, &agent));
    let (status, answer) = client.post(AGENTS, json!({"id": "builder"})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::CONFLICT, &json!("agent_exists"))
    );

    let processes = "/api/agents/builder/processes";
    let run = json!({"operationId": "op-1", "executable": "/bin/true"});
    let (status, answer) = client.post(processes, run.clone()).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::CONFLICT, &json!("agent_not_remote"))
    );
    let local = json!({"name": "Builder", "executionEnvironment": {"kind": "local", "workspaceRoot": "/srv"}});
    let (status, answer) = client.json(Method::PATCH, "/api/agents/builder", &local).await;
    assert_eq!(
        (status, &answer["agent"]),
        (
            StatusCode::OK,
            &json!({"id": "builder", "name": "Builder", "executionEnvironment": {"kind": "local", "workspaceRoot": "/srv"}})
        )
    );
    let (status, _) = client.post(processes, run.clone()).await;
    assert_eq!(status, StatusCode::CONFLICT);

    let change = json!({"executionEnvironment": remote("worker", "/srv/work")});
    let (status, answer) = client.json(Method::PATCH, "/api/agents/builder", &change).await;
    assert_eq!(
        (
            status,
            &answer["agent"]["executionEnvironment"],
            &answer["agent"]["name"]
        ),
        (StatusCode::OK, &remote("worker", "/srv/work"), &json!("Builder"))
    );
    for (operation_id, cwd, expected) in [
        ("op-1", None, "/srv/work"),
        ("op-2", Some(Value::Null), "/srv/work"),
        ("op-3", Some(json!("/tmp")), "/tmp"),
    ] {
        let mut run = run.clone();
        run["operationId"] = json!(operation_id);
        if let Some(cwd) = cwd {
            run["cwd"] = cwd;
        }
        let ((status, _), request) = tokio::join!(client.post(processes, run), async {
            let request = gateway.request("process.exec").await;
            gateway.end(&request).await;
            request
        });
        assert_eq!((status, &request["params"]["cwd"]), (StatusCode::OK, &json!(expected)));
    }
    for (operation_id, arguments, expected) in [
        ("op-4", None, "/srv/work"),
        ("op-5", Some(json!({"path": "a"})), "/srv/work"),
        ("op-6", Some(json!({"workspaceRoot": "/tmp"})), "/tmp"),
    ] {
        let mut call = json!({"operationId": operation_id, "tool": "read"});
        if let Some(arguments) = arguments {
            call["arguments"] = arguments;
        }
        let ((status, _), request) = tokio::join!(client.post("/api/agents/builder/filesystem", call), async {
            let request = gateway.request("filesystem.execute").await;
            gateway.end(&request).await;
            request
        });
        let root = &request["params"]["arguments"]["workspaceRoot"];
        assert_eq!((status, root), (StatusCode::OK, &json!(expected)));
    }

    // Null takes the assignment away, and nothing else.
    let change = json!({"executionEnvironment": null});
    let (_, answer) = client.json(Method::PATCH, "/api/agents/builder", &change).await;
    assert_eq!(
        answer["agent"],
        json!({"id": "builder", "name": "Builder", "executionEnvironment": null})
    );
    assert_eq!(client.get(AGENTS).await["agents"], json!([answer["agent"]]));
}

#[tokio::test]
async fn an_assignment_has_its_rules() {
    let fixture = Fixture::new().await;
    let _gateway = fixture.ready("worker").await;
    fixture.ready("gone").await;
    fixture.controller.revoke("gone").await.unwrap();
    let mut client = fixture.client().await;
    client.post(AGENTS, json!({"id": "a"})).await;
    let with = |member: &str, value: Value| {
        let mut environment = remote("worker", "/srv");
        environment[member] = value;
        json!({"executionEnvironment": environment})
    };
    let mut cases = vec![
        (json!({"executionEnvironment": 5}), 400, "execution_environment_invalid"),
        (
            json!({"executionEnvironment": {}}),
            400,
            "execution_environment_invalid",
        ),
        (with("kind", json!("Remote")), 400, "execution_environment_invalid"),
        (with("providerId", json!("other")), 400, "provider_id_invalid"),
        (with("providerId", Value::Null), 400, "provider_id_invalid"),
        (with("providerId", json!(1)), 400, "provider_id_invalid"),
        (with("targetId", Value::Null), 400, "target_id_invalid"),
        (with("targetId", json!("../x")), 400, "target_id_invalid"),
        (with("targetId", json!("unknown")), 409, "gateway_not_approved"),
        (with("targetId", json!("gone")), 409, "gateway_not_approved"),
        (json!({"name": " "}), 400, "agent_name_required"),
        (json!({"name": 5}), 400, "agent_name_required"),
        (json!({"name": "x".repeat(256)}), 400, "agent_name_invalid"),
    ];
    for root in [
        json!(""),
        json!("srv"),
        json!("./srv"),
        json!("~/srv"),
        json!("/a\u{0}b"),
        json!(5),
        Value::Null,
    ] {
        cases.push((with("workspaceRoot", root), 400, "workspace_root_invalid"));
    }
    let far = format!("/{}", "x".repeat(4096));
    cases.push((with("workspaceRoot", json!(far)), 400, "workspace_root_invalid"));
    let local = json!({"executionEnvironment": {"kind": "local", "workspaceRoot": "srv"}});
    cases.push((local, 400, "workspace_root_invalid"));
    for (body, status, code) in cases {
        let (found, answer) = client.json(Method::PATCH, "/api/agents/a", &body).await;
        assert_eq!((found.as_u16(), &answer["error"]), (status, &json!(code)), "{body}");
        let mut body = body;
        body["id"] = json!("b");
        let (found, answer) = client.post(AGENTS, body.clone()).await;
        assert_eq!((found.as_u16(), &answer["error"]), (status, &json!(code)), "{body}");
    }
    assert_eq!(
        client.get(AGENTS).await["agents"],
        json!([{"id": "a", "name": "a", "executionEnvironment": null}])
    );
    for id in [json!("local"), json!("a/b"), json!(""), json!(5), Value::Null] {
        let (status, answer) = client.post(AGENTS, json!({"id": id})).await;
        assert_eq!((status.as_u16(), &answer["error"]), (400, &json!("agent_id_invalid")));
    }
    let run = json!({"operationId": "op", "command": "true"});
    for (id, status, code) in [
        ("nobody", 404, "agent_not_found"),
        ("%2e%2e", 400, "agent_id_invalid"),
        ("%ff", 400, "agent_id_invalid"),
    ] {
        let agent = format!("{AGENTS}/{id}");
        for (method, path, body) in [
            (Method::PATCH, agent.clone(), json!({})),
            (Method::POST, format!("{agent}/processes"), run.clone()),
            (Method::POST, format!("{agent}/filesystem"), run.clone()),
        ] {
            let (found, answer) = client.json(method, &path, &body).await;
            assert_eq!((found.as_u16(), &answer["error"]), (status, &json!(code)), "{path}");
        }
    }
}

#[tokio::test]
async fn an_agent_of_a_revoked_gateway_runs_nothing() {
    let fixture = Fixture::new().await;
    let _gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let agent = json!({"id": "a", "executionEnvironment": remote("worker", "/srv")});
    assert_eq!(client.post(AGENTS, agent).await.0, StatusCode::CREATED);
    fixture.controller.revoke("worker").await.unwrap();
    let run = json!({"operationId": "op", "command": "true"});
    let (status, answer) = client.post("/api/agents/a/processes", run).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("gateway_not_connected"))
    );
}
