//! Shapes that the status of several kinds shares.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error met while reconciling, kept until a reconcile succeeds.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// What failed, in words for programs: the stage of the plan and the API server's reason.
    pub code: String,
    /// What failed, in words for people.
    pub description: String,
    /// When the error was first seen.
    pub observed_at: Time,
}
