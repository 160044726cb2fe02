//! The OpenAPI document: that it tells all routes and no others, and that answers are of the forms that it promises.
//! Every answer that a test of this crate gets as JSON is checked here.

use super::{Fixture, PATIENCE};
use goblin_api::routes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

pub(super) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let document = crate::routes::document_text();
    serde_json::from_slice(&document).unwrap()
});

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Each operation of the document: method, path template, description.
pub(super) fn operations() -> impl Iterator<Item = (Method, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, item)| {
        let operations = METHODS
            .iter()
            .filter_map(|method| Some((method.to_uppercase().parse().unwrap(), path.as_str(), item.get(method)?)));
        operations.collect::<Vec<_>>()
    })
}

/// A path of the template, with these ids.
pub(super) fn path_of(template: &str, id: &str) -> String {
    let segments = template
        .split('/')
        .map(|segment| if segment.starts_with('{') { id } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

fn operation_of(method: &Method, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (mut left, mut right) = (template.split('/'), path.split('/'));
        loop {
            match (left.next(), right.next()) {
                (None, None) => return true,
                (Some(left), Some(right)) if left == right || (left.starts_with('{') && !right.is_empty()) => {}
                _ => return false,
            }
        }
    };
    let found = operations().find(|(known, template, _)| known == method && fits(template));
    found.map(|(_, _, operation)| operation)
}

/// Checks an answer of a documented route against the document. A route that is not there has its own answers.
pub(super) fn check(method: &Method, path: &str, status: StatusCode, answer: &Value) {
    let Some(operation) = operation_of(method, path) else {
        let code = answer["error"].as_str().unwrap_or_default();
        assert!(
            [(404, "not_found"), (405, "method_not_allowed")].contains(&(status.as_u16(), code)),
            "{method} {path} is not documented: {status} {answer}"
        );
        return;
    };
    let schema = &operation["responses"][status.as_str()]["content"]["application/json"]["schema"];
    assert!(
        !schema.is_null(),
        "{method} {path}: {status} is not documented: {answer}"
    );
    let mut root = schema.clone();
    root["components"] = DOCUMENT["components"].clone();
    let validator = jsonschema::validator_for(&root).unwrap();
    let errors: Vec<_> = validator.iter_errors(answer).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{method} {path}: {status} {answer}: {errors:?}");
}

#[test]
fn the_document_is_whole() {
    let document = &*DOCUMENT;
    assert_eq!(document["openapi"], "3.1.0");
    let text = document.to_string();
    // Every reference leads somewhere.
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(!document["components"]["schemas"][name].is_null(), "{name}");
    }
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} twice");
        let open = [routes::HEALTHZ, routes::OPENAPI, routes::LOGIN].contains(&path);
        assert_eq!(operation["security"] == json!([]), open, "{method} {path}");
        let may_be_unknown = open && path != routes::LOGIN;
        assert_eq!(
            operation["responses"]["401"].is_null(),
            may_be_unknown,
            "{method} {path}"
        );
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(!response["content"].is_null(), "{method} {path} {status}");
        }
    }
    for scheme in ["bearer", "session"] {
        assert!(!document["components"]["securitySchemes"][scheme].is_null());
    }
}

#[tokio::test]
async fn routes_and_document_are_the_same() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let mut mounted = 0;
    let paths: BTreeSet<_> = operations().map(|(_, path, _)| path).collect();
    for template in paths {
        for method in METHODS {
            let documented = !DOCUMENT["paths"][template][method].is_null();
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path_of(template, "any");
            let sent = client.send_at(method.clone(), &path, &[], "");
            let response = tokio::time::timeout(PATIENCE, sent).await.unwrap();
            let is_mounted = response.status() != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(documented, is_mounted, "{method} {path}");
            if !is_mounted {
                let allow = response.headers()["allow"].to_str().unwrap();
                let allow: BTreeSet<_> = allow.split(',').map(str::trim).filter(|it| *it != "HEAD").collect();
                let known: BTreeSet<_> = METHODS
                    .iter()
                    .filter(|method| !DOCUMENT["paths"][template][**method].is_null())
                    .map(|method| method.to_uppercase())
                    .collect();
                assert!(allow.iter().copied().eq(known.iter().map(String::as_str)), "{allow:?}");
            }
            mounted += usize::from(is_mounted);
            // A stream of events has no end.
            client = fixture.client().await;
        }
    }
    assert_eq!(mounted, operations().count());
    let served = client.send_at(Method::GET, routes::OPENAPI, &[], "").await;
    let (_, served) = super::client::answer(served).await;
    assert_eq!(served, *DOCUMENT);
}

/// Answers as they are documented to people: their forms are those of the document.
#[test]
fn golden_answers_are_of_the_documented_form() {
    let golden: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    let mut covered = BTreeSet::new();
    for example in golden.as_array().unwrap() {
        let method: Method = example["method"].as_str().unwrap().parse().unwrap();
        let path = example["path"].as_str().unwrap();
        let status = u16::try_from(example["status"].as_u64().unwrap()).unwrap();
        assert!(operation_of(&method, path).is_some(), "{method} {path}");
        check(&method, path, StatusCode::from_u16(status).unwrap(), &example["answer"]);
        if status < 300 {
            covered.insert(operation_of(&method, path).unwrap()["operationId"].as_str().unwrap());
        }
    }
    for (method, path, operation) in operations() {
        let json = DOCUMENT["paths"][path][method.as_str().to_lowercase()]["responses"]
            .as_object()
            .unwrap()
            .iter()
            .any(|(status, response)| status.starts_with('2') && !response["content"]["application/json"].is_null());
        let id = operation["operationId"].as_str().unwrap();
        assert!(
            !json || path == routes::OPENAPI || covered.contains(id),
            "no example of {id}"
        );
    }
}

#[test]
#[should_panic(expected = "is not documented")]
fn a_status_that_is_not_documented_is_noticed() {
    check(
        &Method::GET,
        "/healthz",
        StatusCode::CONFLICT,
        &json!({"ok": false, "error": "conflict"}),
    );
}

#[test]
#[should_panic(expected = "GET /healthz")]
fn an_answer_of_another_form_is_noticed() {
    check(&Method::GET, "/healthz", StatusCode::OK, &json!({"ok": false}));
}
