//! API targets that an operator listed.

use crate::Success;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of GET `/targets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetsAnswer {
    /// Always true.
    pub ok: Success,
    /// The targets, in the order in which they were added.
    pub targets: Vec<Target>,
}

/// One target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its id, which never changes.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// http(s) URL without a trailing slash.
    pub base_url: String,
    /// Whether it may be used.
    pub enabled: bool,
}

/// Body of POST `/targets` and of PUT `/targets/:id`, which replaces the whole target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"id": "staging", "name": "Staging", "baseUrl": "https://staging.example", "enabled": true}))]
pub struct TargetRequest {
    /// Its id. For PUT it may be absent, else it must be the one in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$")]
    pub id: Option<String>,
    /// Name for people.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// http(s) URL without credentials, query and fragment; trailing slashes are dropped.
    #[schema(pattern = "^https?://[^?#]+$", max_length = 2048)]
    pub base_url: String,
    /// Whether it may be used; true when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub enabled: Option<bool>,
}

/// Answer of POST `/targets` (status 201) and of PUT `/targets/:id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetAnswer {
    /// Always true.
    pub ok: Success,
    /// The target as it is stored.
    pub target: Target,
}
