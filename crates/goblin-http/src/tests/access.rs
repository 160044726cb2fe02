//! Who gets in over TCP, and as what.

use super::web::{fixture, made};
use super::{NOW, exec};
use crate::AUDIT_FILE;
use crate::audit::read;
use goblin_api::routes::{self, HEALTHZ, LOGIN, LOGOUT, PREFIX, TOKENS};
use hyper::Method;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Every route but those of everybody: what it needs.
fn every_route() -> Vec<(Method, String, &'static str)> {
    let (get, put, post, delete) = (Method::GET, Method::PUT, Method::POST, Method::DELETE);
    vec![
        (get.clone(), routes::controller(), "read"),
        (put.clone(), routes::controller(), "admin"),
        (put.clone(), routes::controller_tls(), "admin"),
        (delete.clone(), routes::controller_tls(), "admin"),
        (get.clone(), routes::pairings(), "read"),
        (post.clone(), routes::approve("g"), "admin"),
        (post.clone(), routes::reject("g"), "admin"),
        (get.clone(), routes::trust(), "read"),
        (put, routes::trust_of("g"), "admin"),
        (delete.clone(), routes::trust_of("g"), "admin"),
        (get.clone(), routes::gateways(), "read"),
        (get.clone(), routes::operations(None, None), "read"),
        (post.clone(), routes::processes("g", false), "execute"),
        (post.clone(), routes::filesystem("g"), "execute"),
        (post.clone(), routes::cancel("g", "o"), "execute"),
        (get, TOKENS.to_owned(), "admin"),
        (post, TOKENS.to_owned(), "admin"),
        (delete, routes::token("t"), "admin"),
    ]
}

#[tokio::test]
async fn each_route_asks_for_its_scope_and_nothing_passes_without_one() {
    let (fixture, web) = fixture().await;
    let scopes = ["read", "execute", "admin"];
    let mut callers = Vec::new();
    for scope in scopes {
        callers.push(web.token(&web.made(&fixture, scope).await.1));
    }
    for (method, path, needed) in every_route() {
        let unknown = web.ask(method.clone(), &path, &Value::Null).await;
        // The first ten are told so, the others to wait.
        assert!(matches!(unknown.status, 401 | 429), "{method} {path}: {unknown:?}");
        let enough = scopes.iter().position(|scope| *scope == needed).unwrap();
        for (index, caller) in callers.iter().enumerate() {
            let reply = caller.ask(method.clone(), &path, &Value::Null).await;
            let case = format!("{method} {path} by {}: {reply:?}", scopes[index]);
            if index < enough {
                assert_eq!(reply.failure(), (403, "forbidden".to_owned()), "{case}");
            } else {
                assert!(!matches!(reply.status, 401 | 403 | 405 | 429), "{case}");
            }
        }
    }
    let unlisted = callers[0].ask(Method::DELETE, &routes::gateways(), &Value::Null).await;
    assert_eq!(unlisted.status, 403, "what is not listed needs everything");
    let unlisted = callers[2].ask(Method::DELETE, &routes::gateways(), &Value::Null).await;
    assert_eq!(unlisted.failure(), (405, "method_not_allowed".to_owned()));
    assert_eq!(
        callers[0].get("/nothing").await.failure(),
        (404, "not_found".to_owned())
    );
}

#[tokio::test]
async fn an_answer_has_an_id_and_tells_browsers_to_do_nothing_with_it() {
    let (fixture, web) = fixture().await;
    let caller = web.token(&web.made(&fixture, "read").await.1);
    let mut ids = Vec::new();
    for (asked, path, status) in [
        (&web, HEALTHZ, 200),
        (&web, TOKENS, 401),
        (&caller, TOKENS, 403),
        (&caller, "/nothing", 404),
        (&caller, &*routes::gateways(), 200),
    ] {
        let reply = asked.get(path).await;
        assert_eq!(reply.status, status, "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path} {name}");
        }
        assert!(
            reply
                .headers
                .iter()
                .all(|(name, _)| !name.starts_with("access-control"))
        );
        assert_eq!(
            reply.header("www-authenticate").is_some(),
            status == 401,
            "{path}: {reply:?}"
        );
        ids.push(reply.header("x-request-id").unwrap().to_owned());
    }
    ids.dedup();
    assert_eq!(ids.len(), 5);
    let mine = web.with("x-request-id", "mine").get(HEALTHZ).await;
    assert_ne!(mine.header("x-request-id"), Some("mine"));
}

#[tokio::test]
async fn no_spelling_of_a_path_gets_around_its_scope() {
    let (fixture, web) = fixture().await;
    let reader = web.token(&web.made(&fixture, "read").await.1);
    for path in [
        "/api%2Ftokens",
        "/api/tokens/",
        "//api/tokens",
        "/api//tokens",
        "/./api/tokens",
        "/api/./tokens",
        "/x/../api/tokens",
        "/healthz/../api/tokens",
        "/healthz/%2e%2e/api/tokens",
        "/healthz%2f..%2fapi%2ftokens",
        "/%61pi/tokens",
        "/API/tokens",
        "/api/tokens;x",
        "/api/tokens%00",
        "/api/tokens%20",
        "/api/mods/node-goblin/../../tokens",
        "\\api\\tokens",
        "/api/login/../tokens",
    ] {
        for asked in [&web, &reader] {
            for method in [Method::GET, Method::POST] {
                let reply = asked.ask(method, path, &json!({"name": "n", "scope": "admin"})).await;
                assert!(matches!(reply.status, 400 | 401 | 403 | 404 | 429), "{path}: {reply:?}");
                assert!(!reply.body.contains("\"ok\":true"), "{path}: {reply:?}");
            }
        }
    }
    // Headers that some servers take for the path or the method.
    for name in [
        "x-original-url",
        "x-rewrite-url",
        "x-http-method-override",
        "x-forwarded-uri",
    ] {
        let reply = reader.with(name, "/healthz").get(TOKENS).await;
        assert_eq!(reply.failure(), (403, "forbidden".to_owned()), "{name}");
    }
    let absolute = format!("http://{}/api/tokens", web.address);
    assert_eq!(reader.get(&absolute).await.failure(), (403, "forbidden".to_owned()));
    assert_eq!(fixture.client().await.tokens().await.len(), 1, "nothing was made");
}

#[tokio::test]
async fn a_token_is_made_shown_once_listed_and_revoked() {
    let (fixture, web) = fixture().await;
    let (admin_id, admin) = web.made(&fixture, "admin").await;
    let admin = web.token(&admin);
    for (body, code) in [
        (json!({}), "token_name_invalid"),
        (json!({"name": " ", "scope": "read"}), "token_name_invalid"),
        (json!({"name": "a\nb", "scope": "read"}), "token_name_invalid"),
        (json!({"name": "x".repeat(256), "scope": "read"}), "token_name_invalid"),
        (json!({"name": "n"}), "token_scope_invalid"),
        (json!({"name": "n", "scope": "root"}), "token_scope_invalid"),
        (json!({"name": "n", "scope": ["read"]}), "token_scope_invalid"),
        (
            json!({"name": "n", "scope": "read", "expiresInSeconds": 0}),
            "token_expiry_invalid",
        ),
        (
            json!({"name": "n", "scope": "read", "expiresInSeconds": -1}),
            "token_expiry_invalid",
        ),
        (
            json!({"name": "n", "scope": "read", "expiresInSeconds": 1.5}),
            "token_expiry_invalid",
        ),
        (
            json!({"name": "n", "scope": "read", "expiresInSeconds": u64::MAX}),
            "token_expiry_invalid",
        ),
    ] {
        let reply = admin.post(TOKENS, body.clone()).await;
        assert_eq!(reply.failure(), (400, code.to_owned()), "{body}");
    }
    let body = json!({"name": " ci ", "scope": "execute", "expiresInSeconds": 60});
    let reply = admin.post(TOKENS, body).await;
    assert_eq!(reply.status, 201);
    let created: goblin_api::CreatedToken = serde_json::from_str(&reply.body).unwrap();
    assert!(created.secret.starts_with("ng_"));
    assert_eq!(
        serde_json::to_value(&created.token).unwrap(),
        json!({"id": created.token.id, "name": "ci", "scope": "execute", "createdAt": "2026-12-01T00:00:00.000Z",
               "expiresAt": "2026-12-01T00:01:00.000Z", "expired": false})
    );
    let caller = web.token(&created.secret);
    assert_eq!(caller.get(&routes::gateways()).await.status, 200);
    let listed = admin.get(TOKENS).await;
    assert_eq!(listed.json()["tokens"][1]["name"], "ci");
    assert!(!listed.body.contains(&created.secret) && !listed.body.contains("digest"));

    fixture.clock.store(NOW + 60_000, Ordering::Relaxed);
    assert_eq!(
        caller.get(&routes::gateways()).await.failure(),
        (401, "unauthorized".to_owned())
    );
    assert_eq!(admin.get(TOKENS).await.json()["tokens"][1]["expired"], true);

    let (id, token) = web.made(&fixture, "read").await;
    let caller = web.token(&token);
    assert_eq!(caller.get(&routes::gateways()).await.status, 200);
    let revoked = admin.ask(Method::DELETE, &routes::token(&id), &Value::Null).await;
    assert_eq!(
        (revoked.status, revoked.json()["token"]["id"].as_str()),
        (200, Some(&*id))
    );
    assert_eq!(
        caller.get(&routes::gateways()).await.failure(),
        (401, "unauthorized".to_owned())
    );
    for unknown in [id.as_str(), "..", "%00", "' OR 1=1 --"] {
        let reply = admin.ask(Method::DELETE, &routes::token(unknown), &Value::Null).await;
        assert_eq!(reply.failure(), (404, "not_found".to_owned()), "{unknown}");
    }
    // One that revokes itself is out.
    let own = admin.ask(Method::DELETE, &routes::token(&admin_id), &Value::Null).await;
    assert_eq!(own.status, 200);
    assert_eq!(admin.get(TOKENS).await.status, 401);
}

#[tokio::test]
async fn a_store_that_fails_makes_no_token() {
    let (fixture, web) = fixture().await;
    let (id, admin) = web.made(&fixture, "admin").await;
    let admin = web.token(&admin);
    fixture.store.fail_write_after(0);
    let reply = admin.post(TOKENS, json!({"name": "n", "scope": "read"})).await;
    assert_eq!(reply.failure(), (503, "store_unavailable".to_owned()));
    fixture.store.fail_write_after(0);
    let reply = admin.ask(Method::DELETE, &routes::token(&id), &Value::Null).await;
    assert_eq!(reply.failure(), (503, "store_unavailable".to_owned()));
    assert_eq!(admin.get(TOKENS).await.json()["tokens"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_browser_logs_in_works_and_logs_out() {
    let (fixture, web) = fixture().await;
    let (_, token) = web.made(&fixture, "execute").await;
    let reply = web.post(LOGIN, json!({"token": format!(" {token}\n")})).await;
    let cookie = reply.header("set-cookie").unwrap().to_owned();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=86400; HttpOnly; SameSite=Strict");
    assert!(pair.starts_with("node_goblin_session=") && !cookie.contains(&token));
    let answer = reply.json();
    assert_eq!(
        (&answer["token"]["scope"], &answer["sessionExpiresAt"]),
        (&json!("execute"), &json!("2026-12-02T00:00:00.000Z"))
    );
    assert!(!reply.body.contains(&token));

    let browser = web.with("cookie", pair);
    assert_eq!(browser.get(&routes::gateways()).await.status, 200);
    assert_eq!(
        browser.get(TOKENS).await.failure(),
        (403, "forbidden".to_owned()),
        "as its token may"
    );
    let dispatch = routes::processes("worker", false);
    let reply = browser.post(&dispatch, exec("op")).await;
    assert_eq!(reply.failure(), (403, "csrf_header_required".to_owned()));
    let page = browser.with("x-node-goblin-request", "1");
    let reply = page.post(&dispatch, exec("op")).await;
    assert_eq!(reply.failure(), (503, "gateway_not_connected".to_owned()));
    let both = browser.token("ng_wrong");
    assert_eq!(
        both.get(&routes::gateways()).await.status,
        401,
        "a token that is shown counts"
    );

    assert_eq!(browser.ask(Method::POST, LOGOUT, &Value::Null).await.status, 403);
    assert_eq!(browser.get(&routes::gateways()).await.status, 200);
    let reply = page.ask(Method::POST, LOGOUT, &Value::Null).await;
    assert_eq!(reply.status, 200);
    assert!(
        reply
            .header("set-cookie")
            .unwrap()
            .starts_with("node_goblin_session=; Path=/; Max-Age=0;")
    );
    assert_eq!(
        browser.get(&routes::gateways()).await.failure(),
        (401, "unauthorized".to_owned())
    );

    for (body, failure) in [
        (json!({"token": "ng_wrong"}), (401, "unauthorized")),
        (json!({"token": ""}), (401, "unauthorized")),
        (json!({"token": 5}), (400, "invalid_request")),
        (json!({}), (400, "invalid_request")),
    ] {
        let reply = web.post(LOGIN, body).await;
        assert_eq!(reply.failure(), (failure.0, failure.1.to_owned()));
        assert_eq!(reply.header("set-cookie"), None);
    }
    let form = format!(
        "POST {LOGIN} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    assert_eq!(
        web.raw(form.as_bytes()).await.failure(),
        (415, "unsupported_media_type".to_owned())
    );
}

#[tokio::test]
async fn a_session_ends_with_its_token_unused_or_after_a_day() {
    let (fixture, web) = fixture().await;
    let (id, token) = web.made(&fixture, "admin").await;
    let at = |hours: i64| fixture.clock.store(NOW + hours * 3_600_000, Ordering::Relaxed);
    let works = async |cookie: &str| web.with("cookie", cookie).get(TOKENS).await.status == 200;

    let idle = web.session(&token).await;
    at(1);
    assert!(works(&idle).await);
    at(3);
    assert!(!works(&idle).await);
    let used = web.session(&token).await;
    for hour in 3..27 {
        at(hour);
        assert!(works(&used).await, "{hour}");
    }
    at(27);
    assert!(!works(&used).await);

    let (_, timed) = made(
        &fixture,
        &json!({"name": "t", "scope": "admin", "expiresInSeconds": 3600}),
    )
    .await;
    let (revoked, expired) = (web.session(&token).await, web.session(&timed).await);
    assert!(works(&revoked).await && works(&expired).await);
    at(28);
    assert!(!works(&expired).await, "its token has expired");
    let reply = web
        .token(&token)
        .ask(Method::DELETE, &routes::token(&id), &Value::Null)
        .await;
    assert_eq!(reply.status, 200);
    assert!(!works(&revoked).await, "its token was revoked");
    let planted = web.with("cookie", &format!("{revoked}; {revoked}")).get(TOKENS).await;
    assert_eq!(planted.status, 401);
}

#[tokio::test]
async fn a_token_in_a_query_is_refused_and_written_nowhere() {
    let (mut fixture, web) = fixture().await;
    let (_, token) = web.made(&fixture, "admin").await;
    let caller = web.token(&token);
    for query in [
        format!("token={token}"),
        format!("x={token}"),
        "access_token=y".to_owned(),
    ] {
        for path in [TOKENS.to_owned(), HEALTHZ.to_owned(), [PREFIX, "/events"].concat()] {
            let reply = caller.get(&format!("{path}?{query}")).await;
            assert_eq!(reply.failure(), (400, "token_in_query".to_owned()), "{path}");
        }
    }
    let mut client = fixture.client().await;
    let (status, answer) = client
        .at_root(Method::GET, &format!("{TOKENS}?token={token}"), &Value::Null)
        .await;
    assert_eq!((status.as_u16(), &answer["error"]), (400, &json!("token_in_query")));
    let wrong = format!("ng_{}", "w".repeat(43));
    web.token(&wrong).get(TOKENS).await;
    caller.ask(Method::DELETE, &routes::token(&wrong), &Value::Null).await;
    web.post(LOGIN, json!({"token": wrong})).await;
    fixture.server.take().unwrap().close().await;
    let log = std::fs::read_to_string(fixture.directory.path().join(AUDIT_FILE)).unwrap();
    assert!(log.contains("token_in_query"));
    assert!(
        !log.contains(&token) && !log.contains(&wrong) && !log.contains('?'),
        "{log}"
    );
}

#[tokio::test]
async fn failures_are_limited_and_lock_nobody_out() {
    let (mut fixture, web) = fixture().await;
    let (_, token) = web.made(&fixture, "read").await;
    let wrong = web.token("ng_wrong");
    for _ in 0..10 {
        assert_eq!(
            wrong.get(&routes::gateways()).await.failure(),
            (401, "unauthorized".to_owned())
        );
    }
    fixture.clock.store(NOW + 20_000, Ordering::Relaxed);
    for _ in 0..5 {
        let reply = wrong.get(&routes::gateways()).await;
        assert_eq!(reply.failure(), (429, "rate_limited".to_owned()));
        assert_eq!(reply.header("retry-after"), Some("40"));
        let login = web.post(LOGIN, json!({"token": "ng_wrong"})).await;
        assert_eq!(login.failure(), (429, "rate_limited".to_owned()));
    }
    assert_eq!(web.token(&token).get(&routes::gateways()).await.status, 200);
    fixture.clock.store(NOW + 60_000, Ordering::Relaxed);
    assert_eq!(wrong.get(&routes::gateways()).await.status, 401);
    fixture.server.take().unwrap().close().await;
    let log = read(&fixture.directory.path().join(AUDIT_FILE));
    let by = |result: &str| log.iter().filter(|record| record["result"] == result).count();
    assert_eq!(
        (by("unauthorized"), by("rate_limited")),
        (11, 1),
        "the rest would only fill the disk"
    );
}

#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let (fixture, web) = fixture().await;
    let (_, token) = web.made(&fixture, "admin").await;
    let caller = web.token(&token);
    let port = web.address.port();
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1.nip.io".to_owned(),
        "localhost.evil.example".to_owned(),
        "10.0.0.1".to_owned(),
        "0.0.0.0".to_owned(),
    ] {
        let reply = caller.host(&host).get(TOKENS).await;
        assert_eq!(reply.failure(), (403, "host_forbidden".to_owned()), "{host}");
        let reply = web.host(&host).post(LOGIN, json!({"token": token})).await;
        assert_eq!(reply.failure(), (403, "host_forbidden".to_owned()), "{host}");
    }
    for host in ["localhost", "goblin.example.org", "[::1]:1", "127.0.0.1"] {
        assert_eq!(caller.host(host).get(TOKENS).await.status, 200, "{host}");
    }
    assert_eq!(web.host("any.name").get(HEALTHZ).await.status, 200);
    for host in ["user@localhost", "local host", ""] {
        let reply = caller.host(host).get(TOKENS).await;
        assert!(reply.status == 400, "{host}: {reply:?}");
    }
    for origin in [
        "null".to_owned(),
        "http://evil.example".to_owned(),
        "http://localhost:1".to_owned(),
        format!("http://localhost:{port}"),
    ] {
        for asked in [&caller, &web] {
            let reply = asked.with("origin", &origin).post(LOGIN, json!({"token": token})).await;
            assert_eq!(reply.failure(), (403, "origin_forbidden".to_owned()), "{origin}");
        }
    }
    let ours = web.with("origin", &format!("http://{}", web.address));
    assert_eq!(ours.post(LOGIN, json!({"token": token})).await.status, 200);
    // What a page may do with the answer is asked by a preflight, which is never granted.
    let preflight = web
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "x-node-goblin-request");
    let reply = preflight.ask(Method::OPTIONS, TOKENS, &Value::Null).await;
    assert!(matches!(reply.status, 401 | 429) && !format!("{reply:?}").contains("access-control-allow"));
}

#[tokio::test]
async fn requests_that_can_be_read_in_two_ways_are_refused() {
    let (fixture, web) = fixture().await;
    let (_, token) = web.made(&fixture, "admin").await;
    let caller = web.token(&token);
    let twice = caller.token(&token).get(TOKENS).await;
    assert_eq!(twice.failure(), (400, "duplicate_header".to_owned()));
    let mixed = web.token("ng_wrong").token(&token).get(TOKENS).await;
    assert_eq!(mixed.failure(), (400, "duplicate_header".to_owned()));
    let hosts = caller.with("host", "localhost").get(TOKENS).await;
    assert_eq!(hosts.failure(), (400, "duplicate_header".to_owned()));
    let here = format!("http://{}", web.address);
    let origins = caller.with("origin", &here).with("origin", &here).get(TOKENS).await;
    assert_eq!(origins.failure(), (400, "duplicate_header".to_owned()));
    for lengths in [
        "2\r\ncontent-length: 2",
        "2\r\ncontent-length: 3",
        "2, 2",
        "+2",
        "-1",
        "0x2",
        "2\r\ntransfer-encoding: chunked",
    ] {
        let text = format!(
            "POST {TOKENS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {lengths}\r\n\r\n{{}}"
        );
        let reply = caller.raw(text.as_bytes()).await;
        assert_eq!(reply.status, 400, "{lengths}: {reply:?}");
    }
    let types = caller
        .with("content-type", "application/json")
        .post(TOKENS, json!({}))
        .await;
    assert_eq!(types.failure(), (415, "unsupported_media_type".to_owned()));
    let absolute = caller.get("http://evil.example/api/tokens").await;
    assert_eq!(absolute.failure(), (400, "host_invalid".to_owned()));
    let hostless = format!("GET {TOKENS} HTTP/1.0\r\nauthorization: Bearer {token}\r\n\r\n");
    assert_eq!(
        web.raw(hostless.as_bytes()).await.failure(),
        (400, "host_invalid".to_owned())
    );
}

#[tokio::test]
async fn the_audit_log_tells_who_did_what() {
    let (mut fixture, web) = fixture().await;
    let (id, token) = web.made(&fixture, "execute").await;
    let caller = web.token(&token);
    let dispatched = caller.post(&routes::processes("worker", false), exec("op-1")).await;
    let denied = caller
        .ask(Method::DELETE, &routes::trust_of("worker"), &Value::Null)
        .await;
    caller.get(&routes::gateways()).await;
    web.session(&token).await;
    web.get(TOKENS).await;
    let secret = json!({"secret": "hunter2hunter2"});
    fixture
        .client()
        .await
        .json(Method::PUT, "/gateway-trust/worker", &secret)
        .await;
    let mut gateway = super::gateway::Gateway::dial(&fixture.controller).await;
    gateway.enrolled("worker", "hunter2hunter2").await;
    // Whoever goes away before the answer leaves a record, too.
    let text = caller.request(&Method::POST, &routes::processes("worker", false), &exec("op-2"));
    let mut stream = tokio::net::TcpStream::connect(web.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes())
        .await
        .unwrap();
    gateway.request("process.exec").await;
    drop(stream);
    fixture.server.take().unwrap().close().await;

    let path = fixture.directory.path().join(AUDIT_FILE);
    let log = read(&path);
    let uid = format!("uid:{}", rustix::process::geteuid().as_raw());
    let token = format!("token:{id}");
    let peer = "peer:127.0.0.1".to_owned();
    let told: Vec<_> = log
        .iter()
        .map(|record| {
            let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            assert_eq!(text("time"), "2026-12-01T00:00:00.000Z");
            assert_eq!(text("requestId").len(), 16);
            (text("actor"), text("action"), text("subject"), text("result"))
        })
        .collect();
    let row = |actor: &String, action: &str, subject: &str, result: &str| {
        (actor.clone(), action.to_owned(), subject.to_owned(), result.to_owned())
    };
    assert_eq!(
        told,
        [
            row(&uid, "token.create", &id, "ok"),
            row(&token, "process.execute", "worker/op-1", "gateway_not_connected"),
            row(&token, "gateway.revoke", "worker", "forbidden"),
            row(&token, "session.begin", "", "ok"),
            row(&peer, "authenticate", "", "unauthorized"),
            row(&uid, "gateway.enrol", "worker", "ok"),
            row(&token, "process.execute", "worker/op-2", "abandoned"),
        ]
    );
    assert_eq!(log[1]["requestId"].as_str(), dispatched.header("x-request-id"));
    assert_eq!(log[2]["requestId"].as_str(), denied.header("x-request-id"));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("ng_") && !text.contains("/bin/true"));
}
