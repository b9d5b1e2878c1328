//! Names of the `ServiceAccount`, the Role and the token with which waiting pods read the pods of their gang.

use std::fmt;

use serde::Serialize;

use super::PodCliqueSetName;

name!(
    /// Name of the `ServiceAccount` of a set.
    PodServiceAccountName
);
name!(
    /// Name of the Role and the `RoleBinding` of a set.
    PodRoleName
);
name!(
    /// Name of the Secret with the token of a set's `ServiceAccount`.
    TokenSecretName
);

impl PodServiceAccountName {
    /// The `ServiceAccount` of a set: `<set>`.
    pub fn of_set(set: &PodCliqueSetName) -> Self {
        Self(set.to_string())
    }
}

impl PodRoleName {
    /// The Role of a set: `grove.io:pcs:<set>`.
    pub fn of_set(set: &PodCliqueSetName) -> Self {
        Self(format!("grove.io:pcs:{set}"))
    }

    /// The name as the value of a label, which must not contain colons.
    pub fn label_value(&self) -> String {
        self.0.replace(':', "-")
    }
}

impl TokenSecretName {
    /// The Secret of a set: `<set>-ic-sat`.
    pub fn of_set(set: &PodCliqueSetName) -> Self {
        Self(format!("{set}-ic-sat"))
    }
}
