//! Which field managers write the state of a domain. Pure.

use grove_api_types::finalizers;
use serde::Deserialize;
use serde_json::Value;

use super::desired::daemon_set::DAEMON;

/// The managed fields of an object. Any client may write entries, so only the fields that are read are decoded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedObject {
    managed_fields: Option<Vec<Manager>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Manager {
    #[serde(rename = "manager")]
    name: String,
    subresource: String,
    fields_v1: Value,
}

impl Manager {
    /// Whether the manager maintains the state: it decides whether the domain is ready, or protects the objects of the domain. The entries of
    /// daemons do not count, because a user may correct one.
    fn maintains_state(&self) -> bool {
        let sets_status = self.subresource == "status" && self.fields_v1.pointer("/f:status/f:status").is_some();
        let finalizer = format!("v:{:?}", finalizers::COMPUTE_DOMAIN_STATE);
        let finalizers = self.fields_v1.pointer("/f:metadata/f:finalizers");
        sets_status || finalizers.is_some_and(|finalizers| finalizers.get(&finalizer).is_some())
    }
}

/// The first manager of the state that is neither mnnvl-controller nor a daemon. An update of a daemon may own a value that the CRD sets by
/// default.
pub(super) fn other_manager(object: &ManagedObject) -> Option<String> {
    let mut others = object
        .managed_fields
        .iter()
        .flatten()
        .filter(|it| ![crate::NAME, DAEMON].contains(&&*it.name) && it.maintains_state());
    others.next().map(|manager| manager.name.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(manager: &str, subresource: &str, fields: &Value) -> Option<String> {
        let object = json!({ "managedFields": [
            { "manager": manager, "subresource": subresource, "operation": "Update", "time": "year 12000", "fieldsV1": fields },
        ] });
        other_manager(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_manager_of_readiness_or_finalizer_is_another_one() {
        let status = || json!({ "f:status": { "f:status": {} } });
        let finalizer =
            || json!({ "f:metadata": { "f:finalizers": { ".": {}, "v:\"resource.nvidia.com/computeDomain\"": {} } } });
        assert_eq!(
            found("compute-domain-controller", "status", &status()).as_deref(),
            Some("compute-domain-controller")
        );
        assert_eq!(found("compute-domain-controller", "", &finalizer()).as_deref(), Some("compute-domain-controller"));
        assert_eq!(found("mnnvl-controller", "status", &status()), None);
        assert_eq!(found("compute-domain-daemon", "status", &status()), None);
        assert_eq!(found("mnnvl-controller", "", &finalizer()), None);
        let entries = json!({ "f:status": { "f:nodes": { "k:{\"name\":\"n\"}": {} } } });
        assert_eq!(found("kubectl-edit", "status", &entries), None, "a corrected entry");
        let other = json!({ "f:metadata": { "f:finalizers": { "v:\"example.com/other\"": {} } } });
        assert_eq!(found("other", "", &other), None);
        assert_eq!(other_manager(&ManagedObject::default()), None);
    }
}
