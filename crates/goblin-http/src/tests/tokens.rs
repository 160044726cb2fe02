//! Tokens and sessions from their beginning to their end.

use super::web::{fixture, made};
use super::{NOW, exec};
use goblin_api::routes::{self, LOGIN, LOGOUT, TOKENS};
use hyper::Method;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

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
    let long = web.post(LOGIN, json!({"token": "x".repeat(20_000)})).await;
    assert_eq!(long.failure(), (413, "payload_too_large".to_owned()));
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
