//! The contract of [`Secrets`].

use std::{future::Future, sync::Arc};

use super::{awkward_names, refused_names};
use crate::{PortError, SECRET_BYTES_MAX, Secret, Secrets};

/// Runs the whole suite.
pub async fn secrets_suite<F>(make: impl Fn() -> F)
where
    F: Future<Output = Arc<dyn Secrets>>,
{
    life_of_a_secret(make().await).await;
    names_are_exact(make().await).await;
    bounds_are_kept(make().await).await;
}

async fn text(secrets: &Arc<dyn Secrets>, name: &str) -> Option<String> {
    secrets
        .get(name)
        .await
        .expect("get")
        .map(|secret| secret.expose().to_owned())
}

async fn life_of_a_secret(secrets: Arc<dyn Secrets>) {
    assert_eq!(text(&secrets, "a").await, None);
    assert_eq!(secrets.has("a").await, Ok(false));
    for value in ["one", "two", "", "nul \0, newline \n, \u{1f980}"] {
        secrets.set("a", Secret::new(value.to_owned())).await.expect("set");
        assert_eq!(
            text(&secrets, "a").await.as_deref(),
            Some(value),
            "an empty secret is not an absent one"
        );
        assert_eq!(secrets.has("a").await, Ok(true));
    }
    secrets.clear("a").await.expect("clear");
    assert_eq!(text(&secrets, "a").await, None);
    assert_eq!(secrets.has("a").await, Ok(false));
    secrets.clear("a").await.expect("clearing what is absent succeeds");
}

async fn names_are_exact(secrets: Arc<dyn Secrets>) {
    let names = awkward_names();
    for name in &names {
        secrets
            .set(name, Secret::new(format!("secret of {name}")))
            .await
            .expect("set");
    }
    for name in &names {
        assert_eq!(text(&secrets, name).await, Some(format!("secret of {name}")));
    }
    secrets.clear("Case").await.expect("clear");
    assert_eq!(secrets.has("Case").await, Ok(false));
    assert_eq!(secrets.has("case").await, Ok(true), "names differ by case");
    for name in refused_names() {
        assert_eq!(secrets.get(&name).await.err(), Some(PortError::NameInvalid));
        assert_eq!(
            secrets.set(&name, Secret::new("s".to_owned())).await,
            Err(PortError::NameInvalid)
        );
        assert_eq!(secrets.clear(&name).await, Err(PortError::NameInvalid));
        assert_eq!(secrets.has(&name).await, Err(PortError::NameInvalid));
    }
}

async fn bounds_are_kept(secrets: Arc<dyn Secrets>) {
    let largest = "s".repeat(SECRET_BYTES_MAX);
    secrets
        .set("large", Secret::new(largest.clone()))
        .await
        .expect("the largest allowed");
    assert_eq!(text(&secrets, "large").await, Some(largest.clone()));
    let refused = secrets.set("large", Secret::new(format!("{largest}s"))).await;
    assert_eq!(refused.map_err(|error| error.code()), Err("record_value_invalid"));
    assert_eq!(
        text(&secrets, "large").await,
        Some(largest),
        "a refused value replaces nothing"
    );
}
