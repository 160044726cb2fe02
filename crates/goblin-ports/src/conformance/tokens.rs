//! The contract of [`Tokens`].

use std::{future::Future, sync::Arc};

use super::awkward_names;
use crate::{PortError, TokenRecord, TokenScope, Tokens};

/// Runs the whole suite.
pub async fn tokens_suite<F>(make: impl Fn() -> F)
where
    F: Future<Output = Arc<dyn Tokens>>,
{
    life_of_a_token(make().await).await;
    nothing_is_there_twice(make().await).await;
    texts_are_exact(make().await).await;
    bounds_are_kept(make().await).await;
}

fn token(id: &str, digit: char) -> TokenRecord {
    TokenRecord {
        id: id.to_owned(),
        name: format!("name of {id}"),
        scope: TokenScope::Read,
        digest: digit.to_string().repeat(64),
        created_at: "2026-12-01T00:00:00.000Z".to_owned(),
        expires_at: None,
    }
}

async fn ids(tokens: &Arc<dyn Tokens>) -> Vec<String> {
    let all = tokens.all().await.expect("all");
    all.into_iter().map(|record| record.id).collect()
}

async fn life_of_a_token(tokens: Arc<dyn Tokens>) {
    assert_eq!(tokens.all().await, Ok(Vec::new()));
    let first = TokenRecord {
        scope: TokenScope::Admin,
        expires_at: Some("2027-12-01T00:00:00.000Z".to_owned()),
        ..token("z", '1')
    };
    let second = TokenRecord {
        scope: TokenScope::Execute,
        // Older by its time: order comes from the order of the calls.
        created_at: "2020-12-01T00:00:00.000Z".to_owned(),
        ..token("a", '2')
    };
    tokens.add(first.clone()).await.expect("add");
    tokens.add(second.clone()).await.expect("add");
    assert_eq!(tokens.all().await, Ok(vec![first.clone(), second.clone()]));
    tokens.remove("z").await.expect("remove");
    assert_eq!(tokens.all().await, Ok(vec![second.clone()]));
    tokens.remove("z").await.expect("removing what is absent succeeds");
    tokens.add(first.clone()).await.expect("an id that is free again");
    assert_eq!(tokens.all().await, Ok(vec![second, first]));
}

async fn nothing_is_there_twice(tokens: Arc<dyn Tokens>) {
    tokens.add(token("a", '1')).await.expect("add");
    for twin in [token("a", '2'), token("b", '1'), token("a", '1')] {
        let refused = tokens.add(twin).await;
        assert_eq!(refused.map_err(|error| error.code()), Err("record_value_invalid"));
    }
    assert_eq!(tokens.all().await, Ok(vec![token("a", '1')]));
    tokens.add(token("A", '3')).await.expect("ids differ by case");
}

async fn texts_are_exact(tokens: Arc<dyn Tokens>) {
    for (index, name) in awkward_names().into_iter().enumerate() {
        let record = TokenRecord {
            name: name.clone(),
            digest: format!("{index:064x}"),
            ..token(&name, '0')
        };
        tokens.add(record).await.expect("add");
    }
    let all = tokens.all().await.expect("all");
    let names: Vec<_> = all.iter().map(|record| record.name.clone()).collect();
    assert_eq!(names, awkward_names());
    for name in awkward_names() {
        tokens.remove(&name).await.expect("remove");
    }
    assert_eq!(ids(&tokens).await, Vec::<String>::new());
}

async fn bounds_are_kept(tokens: Arc<dyn Tokens>) {
    for name in super::refused_names() {
        assert_eq!(tokens.add(token(&name, '1')).await, Err(PortError::NameInvalid));
        let named = TokenRecord {
            name,
            ..token("a", '1')
        };
        assert_eq!(tokens.add(named).await, Err(PortError::NameInvalid));
    }
    for digest in ["", "abc", &"G".repeat(64), &"A".repeat(64)] {
        let record = TokenRecord {
            digest: digest.to_owned(),
            ..token("a", '1')
        };
        let refused = tokens.add(record).await;
        assert_eq!(refused.map_err(|error| error.code()), Err("record_value_invalid"));
    }
    let timeless = TokenRecord {
        expires_at: Some("\0".to_owned()),
        ..token("a", '1')
    };
    let refused = tokens.add(timeless).await;
    assert_eq!(refused.map_err(|error| error.code()), Err("record_value_invalid"));
    assert_eq!(ids(&tokens).await, Vec::<String>::new());
}
