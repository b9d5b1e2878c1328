//! Shapes that the status of several kinds shares.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error met while reconciling, kept until a reconcile succeeds.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// What failed, in a word for programs, such as `ERR_CREATE_POD`.
    pub code: String,
    /// What failed, in words for people.
    pub description: String,
    /// When the error was first seen.
    pub observed_at: Time,
}

impl LastError {
    /// The errors to report after a reconcile that met `failures`, each a code and a description: one per code, since a
    /// quota refuses a hundred pods in the same words. An error that was reported before keeps its time.
    pub fn after(old: &[Self], failures: impl IntoIterator<Item = (String, String)>, now: &Time) -> Vec<Self> {
        let mut errors: Vec<Self> = Vec::new();
        for (code, description) in failures {
            if errors.iter().any(|error| error.code == code) {
                continue;
            }
            let before = old.iter().find(|error| error.code == code);
            let observed_at = before.map_or_else(|| now.clone(), |error| error.observed_at.clone());
            errors.push(Self { code, description, observed_at });
        }
        errors
    }
}
