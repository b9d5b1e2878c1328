//! The admission policy of `deploy/components`, installed and removed by a test.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// The text before the name of the rule in the messages of an admission policy.
pub(super) const DENIED: &str = "denied request: ";

pub(super) struct Policy {
    client: Client,
    name: String,
    covered: String,
}

impl Policy {
    /// Stores the policy for all sets, or for those with the label under another name, because other tests apply the
    /// original. The API server enforces it a moment later.
    pub(super) async fn install(client: &Client, label: Option<(&str, &str)>) -> Self {
        let text = include_str!("../../../deploy/components/admission-policy/policies.yaml");
        let documents: Vec<&str> = text.split("---\n").skip(1).collect();
        let mut policy: ValidatingAdmissionPolicy = serde_saphyr::from_str(documents[0]).expect("a policy");
        let mut binding: Value = serde_saphyr::from_str(documents[1]).expect("a binding");
        if let Some((key, value)) = label {
            let name = format!("labelled.{}", policy.metadata.name.as_deref().expect("a name"));
            binding["metadata"]["name"] = json!(name);
            binding["spec"]["policyName"] = json!(name);
            binding["spec"]["matchResources"] = json!({ "objectSelector": { "matchLabels": { key: value } } });
            policy.metadata.name = Some(name);
        }
        let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).expect("a binding");
        let params = PatchParams::apply("e2e").force();
        let name = policy.metadata.name.clone().expect("a name");
        let covered = policy.metadata.annotations.as_ref().expect("annotations")["grove.io/covered-rules"].clone();
        let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
        policies.patch(&name, &params, &Patch::Apply(&policy)).await.expect("the policy is applied");
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
        bindings.patch(&name, &params, &Patch::Apply(&binding)).await.expect("the binding is applied");
        Self { client: client.clone(), name, covered }
    }

    /// The rules in the policy's annotation.
    pub(super) fn covered(&self) -> BTreeSet<&str> {
        self.covered.split(' ').collect()
    }

    /// Deletes the policy and its binding.
    pub(super) async fn remove(self) {
        let params = DeleteParams::default();
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(self.client.clone());
        bindings.delete(&self.name, &params).await.expect("the binding is deleted");
        let policies = Api::<ValidatingAdmissionPolicy>::all(self.client);
        policies.delete(&self.name, &params).await.expect("the policy is deleted");
    }
}
