//! Query parameters. Those that are not known are ignored.

use crate::answer::Failure;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use std::collections::HashMap;

/// The parameters of a request; of doubled ones the last counts.
pub(crate) struct Parameters(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Query::<Vec<(String, String)>>::from_request_parts(parts, state).await {
            Ok(Query(pairs)) => Ok(Self(pairs.into_iter().collect())),
            Err(_) => Err(Failure::invalid("invalid_query")),
        }
    }
}

impl Parameters {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// `limit`, held within 1 and `max`; what is no integer gives `default`.
    pub(crate) fn limit(&self, default: u32, max: u32) -> u32 {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match self.get("limit") {
            Some(text) if digits(text) => text.parse().unwrap_or(max).clamp(1, max),
            Some(text) if text.strip_prefix('-').is_some_and(digits) => 1,
            _ => default,
        }
    }
}
