//! The contract of [`Settings`].

use std::{future::Future, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{awkward_names, refused_names};
use crate::{Change, PortError, SETTING_BYTES_MAX, SETTING_NESTING_MAX, Settings, SettingsExt};

/// Runs the whole suite. Wants a runtime with several threads, so that updates really compete.
pub async fn settings_suite<F>(make: impl Fn() -> F)
where
    F: Future<Output = Arc<dyn Settings>>,
{
    absent_null_and_values(make().await).await;
    names_are_exact(make().await).await;
    a_refusal_changes_nothing(make().await).await;
    changes_are_applied(make().await).await;
    concurrent_updates_are_serialised(make().await).await;
    bounds_are_kept(make().await).await;
    typed_access(make().await).await;
}

async fn absent_null_and_values(settings: Arc<dyn Settings>) {
    assert_eq!(settings.get("a").await, Ok(None), "absent");
    let values = [
        Value::Null,
        json!(false),
        json!(0),
        json!(-9_007_199_254_740_993_i64),
        json!(u64::MAX),
        json!(0.1),
        json!(""),
        json!("nul \u{0} quote \" newline \n astral \u{1f980}"),
        json!([]),
        json!({}),
        json!({"b": [1, null, {"c": "d"}], "a": {"nul\u{0}key": true}}),
    ];
    for value in values {
        settings.set("a", value.clone()).await.expect("set");
        assert_eq!(
            settings.get("a").await,
            Ok(Some(value)),
            "a value comes back as it went in; null is not absent"
        );
    }
    settings.delete("a").await.expect("delete");
    assert_eq!(settings.get("a").await, Ok(None), "deleted");
    settings.delete("a").await.expect("deleting what is absent succeeds");
}

async fn names_are_exact(settings: Arc<dyn Settings>) {
    let names = awkward_names();
    for (index, name) in names.iter().enumerate() {
        settings.set(name, json!(index)).await.expect("set");
    }
    for (index, name) in names.iter().enumerate() {
        assert_eq!(settings.get(name).await, Ok(Some(json!(index))), "{name:?}");
    }
    for name in refused_names() {
        assert_eq!(settings.get(&name).await, Err(PortError::NameInvalid));
        assert_eq!(settings.set(&name, json!(1)).await, Err(PortError::NameInvalid));
        assert_eq!(settings.delete(&name).await, Err(PortError::NameInvalid));
        assert_eq!(
            settings.update(&name, Box::new(|_| Change::Delete)).await,
            Err(PortError::NameInvalid)
        );
    }
}

async fn a_refusal_changes_nothing(settings: Arc<dyn Settings>) {
    let refuse = |settings: Arc<dyn Settings>| async move {
        settings
            .update_list("list", |list: &mut Vec<u32>| {
                list.clear();
                list.push(99);
                Err::<(), _>(Refusal::Own)
            })
            .await
    };
    assert_eq!(refuse(settings.clone()).await, Err(Refusal::Own));
    assert_eq!(settings.get("list").await, Ok(None), "a refusal creates nothing");
    settings.set("list", json!([1, 2])).await.expect("set");
    assert_eq!(
        refuse(settings.clone()).await,
        Err(Refusal::Own),
        "the closure's own error comes back"
    );
    assert_eq!(
        settings.get("list").await,
        Ok(Some(json!([1, 2]))),
        "a refusal changes nothing"
    );

    settings.update("list", Box::new(|_| Change::Keep)).await.expect("keep");
    assert_eq!(settings.get("list").await, Ok(Some(json!([1, 2]))), "keep keeps");
}

async fn changes_are_applied(settings: Arc<dyn Settings>) {
    settings
        .update(
            "a",
            Box::new(|present| {
                assert_eq!(present, None);
                Change::Set(Value::Null)
            }),
        )
        .await
        .expect("create");
    settings
        .update(
            "a",
            Box::new(|present| {
                assert_eq!(present, Some(Value::Null), "null differs from absent");
                Change::Set(json!({"n": 1}))
            }),
        )
        .await
        .expect("replace");
    settings
        .update(
            "a",
            Box::new(|present| {
                assert_eq!(present, Some(json!({"n": 1})));
                Change::Delete
            }),
        )
        .await
        .expect("delete");
    assert_eq!(settings.get("a").await, Ok(None));
}

async fn concurrent_updates_are_serialised(settings: Arc<dyn Settings>) {
    const TASKS: u64 = 16;
    const ROUNDS: u64 = 8;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let settings = settings.clone();
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                settings
                    .update_as("counter", |present: Option<u64>| {
                        let next = present.unwrap_or(0) + 1;
                        Ok::<_, PortError>((Some(next), next))
                    })
                    .await
                    .expect("increment");
                settings
                    .update_list("members", |list: &mut Vec<u64>| {
                        list.push(task);
                        Ok::<_, PortError>(())
                    })
                    .await
                    .expect("push");
            }
        });
    }
    while let Some(joined) = tasks.join_next().await {
        joined.expect("no task panics");
    }
    assert_eq!(
        settings.get_as::<u64>("counter").await,
        Ok(Some(TASKS * ROUNDS)),
        "no increment is lost"
    );
    let mut members = settings
        .get_as::<Vec<u64>>("members")
        .await
        .expect("get")
        .expect("present");
    members.sort_unstable();
    let expected: Vec<u64> = (0..TASKS)
        .flat_map(|task| std::iter::repeat_n(task, ROUNDS as usize))
        .collect();
    assert_eq!(members, expected, "no member is lost or doubled");
}

async fn bounds_are_kept(settings: Arc<dyn Settings>) {
    let large = json!("x".repeat(4 * 1024 * 1024));
    settings.set("large", large.clone()).await.expect("4 MiB is fine");
    assert_eq!(settings.get("large").await, Ok(Some(large.clone())));
    let refused = settings.set("large", json!("x".repeat(SETTING_BYTES_MAX))).await;
    assert_eq!(refused.map_err(|error| error.code()), Err("record_value_invalid"));
    assert_eq!(
        settings.get("large").await,
        Ok(Some(large)),
        "a refused value replaces nothing"
    );

    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    settings
        .set("deep", nested(SETTING_NESTING_MAX))
        .await
        .expect("the deepest allowed");
    assert_eq!(settings.get("deep").await, Ok(Some(nested(SETTING_NESTING_MAX))));
    let refused = settings.set("deep", nested(SETTING_NESTING_MAX + 1)).await;
    assert_eq!(refused.map_err(|error| error.code()), Err("record_value_invalid"));
}

async fn typed_access(settings: Arc<dyn Settings>) {
    let pair = Pair {
        left: 1,
        right: "r".to_owned(),
    };
    assert_eq!(settings.get_as::<Pair>("pair").await, Ok(None));
    settings.set_as("pair", &pair).await.expect("set");
    assert_eq!(settings.get_as::<Pair>("pair").await, Ok(Some(pair)));

    settings
        .set("pair", json!({"left": "private text"}))
        .await
        .expect("set");
    let error = settings.get_as::<Pair>("pair").await.expect_err("another form");
    assert_eq!(error.code(), "setting_invalid");
    assert!(
        !error.to_string().contains("private text"),
        "content stays out of errors: {error}"
    );
    let result = settings
        .update_as("pair", |_: Option<Pair>| Ok::<_, PortError>((None, ())))
        .await;
    assert_eq!(
        result.map_err(|error| error.code()),
        Err("setting_invalid"),
        "an update does not overwrite it either"
    );
    assert_eq!(settings.get("pair").await, Ok(Some(json!({"left": "private text"}))));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Pair {
    left: u32,
    right: String,
}

#[derive(Debug, PartialEq)]
enum Refusal {
    Own,
    Store(PortError),
}

impl From<PortError> for Refusal {
    fn from(error: PortError) -> Self {
        Self::Store(error)
    }
}
