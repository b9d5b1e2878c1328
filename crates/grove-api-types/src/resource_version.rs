//! The order of resource versions, which the API server counts up.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether `object` is older than `known`. A version that is no integer is not older. A watch sends an older object only after the API
/// server was restored from a backup.
pub fn is_older(object: &ObjectMeta, known: &ObjectMeta) -> bool {
    let version =
        |object: &ObjectMeta| object.resource_version.as_deref().and_then(|version| version.parse::<u64>().ok());
    version(object).zip(version(known)).is_some_and(|(received, known)| received < known)
}
