//! A database that may not grow, which answers as a full disk does.

use goblin_ports::{Operations, PortError, Settings, SettingsExt, TerminalReference};
use serde_json::json;

use super::*;
use crate::schema::MIGRATIONS;

async fn open_small(directory: &Path, pages: u32) -> Store {
    Store::open_as(directory, None, NOW, MIGRATIONS, Some(pages))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_full_store_fails_the_call_and_serves_on() {
    let scratch = scratch();
    let store = open_small(scratch.path(), 40).await;
    Settings::set(&store, "kept", json!([0])).await.unwrap();
    Secrets::set(&store, "s", secret("kept")).await.unwrap();
    store.begin(start("kept"), NOW).await.unwrap();

    let mut stored = 0_u32;
    let error = loop {
        match Settings::set(&store, &format!("filler-{stored}"), json!("x".repeat(3000))).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 40, "the bound is real");
    };
    assert!(stored > 5);
    assert_eq!(error.code(), "store_unavailable");
    assert!(error.to_string().contains("full"), "{error}");
    assert_eq!(
        Settings::get(&store, &format!("filler-{stored}")).await,
        Ok(None),
        "nothing half-written"
    );

    let big = "y".repeat(100_000);
    for _ in 0..3 {
        let grown = store
            .update_list("kept", |list: &mut Vec<serde_json::Value>| {
                list.push(json!(big));
                Ok::<_, PortError>(())
            })
            .await;
        assert_eq!(grown.map_err(|error| error.code()), Err("store_unavailable"));
        let sealed = Secrets::set(&store, "s", secret(&big)).await;
        assert_eq!(sealed.map_err(|error| error.code()), Err("store_unavailable"));
        assert_eq!(
            Settings::get(&store, "kept").await,
            Ok(Some(json!([0]))),
            "the old value stands"
        );
        assert_eq!(secret_text(&store, "s").await.as_deref(), Some("kept"));
    }

    // Many small records find the end too, and a record once begun can still be settled or is told to have failed.
    let mut begun = 0_u32;
    let error = loop {
        match store
            .begin(start(&format!("operation-{begun}-{}", "o".repeat(500))), NOW)
            .await
        {
            Ok(_) => begun += 1,
            Err(error) => break error,
        }
        assert!(begun < 1000, "the bound is real");
    };
    assert_eq!(error.code(), "store_unavailable");

    for index in 0..stored {
        Settings::delete(&store, &format!("filler-{index}"))
            .await
            .expect("room can be made");
    }
    Settings::set(&store, "kept", json!([1])).await.expect("and used");
    let reference = TerminalReference {
        operation_id: "kept".to_owned(),
        replay: false,
        outcome_digest: None,
    };
    store.terminal("kept", reference, NOW).await.unwrap();
    store.close().await;

    let store = open(scratch.path()).await;
    assert_eq!(Settings::get(&store, "kept").await, Ok(Some(json!([1]))));
    assert_eq!(secret_text(&store, "s").await.as_deref(), Some("kept"));
    let all = store
        .list(goblin_ports::OperationFilter::newest(usize::MAX))
        .await
        .unwrap();
    assert_eq!(all.len() as u32, begun + 1, "exactly what was acknowledged");
}

#[tokio::test]
async fn a_new_store_that_does_not_fit_opens_once_it_does() {
    let scratch = scratch();
    let error = Store::open_as(scratch.path(), None, NOW, MIGRATIONS, Some(3))
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), "store_unavailable");
    let store = open(scratch.path()).await;
    Secrets::set(&store, "s", secret("fits")).await.unwrap();
    assert_eq!(secret_text(&store, "s").await.as_deref(), Some("fits"));
}
