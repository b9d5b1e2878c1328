//! Types that the statuses of several kinds share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error of a reconcile. It stays in the status until a reconcile succeeds.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// The code of the error for programs, for example `ERR_CREATE_POD`.
    pub code: String,
    /// The description of the error for humans.
    pub description: String,
    /// The time when the error was first observed.
    pub observed_at: Time,
}

impl LastError {
    /// The errors after a reconcile with these `failures`, each a code and a description. The result contains one error per code,
    /// because a quota rejects a hundred pods with the same message. An error that `old` contains keeps its time.
    pub fn update(old: &[Self], failures: impl IntoIterator<Item = (String, String)>, now: &Time) -> Vec<Self> {
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
