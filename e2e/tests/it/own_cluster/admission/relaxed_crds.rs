//! CRDs without validation rules: an older version may have stored objects that today's rules reject, and users update them
//! now.

use e2e::{namespace_state::TIMEOUT, schema};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::cluster_state::resource;

/// Each kind with its CRD and a spec that today's rules reject.
const KINDS: [(&str, &str, &str); 5] = [
    ("PodCliqueSet", "podcliquesets.grove.io", r#"{"template":{"cliques":[]}}"#),
    ("PodCliqueScalingGroup", "podcliquescalinggroups.grove.io", r#"{"cliqueNames":["a"],"replicas":100001}"#),
    ("PodClique", "podcliques.grove.io", r#"{"podSpec":{"containers":[{"name":"a"}]},"replicas":100001}"#),
    ("ClusterTopology", "clustertopologies.grove.io", r#"{"levels":[]}"#),
    ("ClusterTopologyBinding", "clustertopologybindings.grove.io", r#"{"levels":[]}"#),
];
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
/// The fields of a schema that restrict values beyond their types.
const RULES: [&str; 11] = [
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
];

pub(super) struct RelaxedCrds {
    client: Client,
    schemas: Vec<Value>,
}

impl RelaxedCrds {
    /// Removes the rules from the CRDs.
    pub(super) async fn install(client: &Client) -> Self {
        let mut crds = Self { client: client.clone(), schemas: Vec::new() };
        for (_, name, _) in KINDS {
            let crd = Api::<CustomResourceDefinition>::all(client.clone()).get(name).await.expect("the CRD");
            let crd = serde_json::to_value(crd).expect("JSON");
            crds.schemas.push(crd.pointer(SCHEMA).expect("a schema").clone());
        }
        let relaxed = crds.schemas.iter().cloned().map(|mut schema| {
            schema::remove_rules(&RULES, &mut schema);
            schema
        });
        crds.write(relaxed.collect()).await;
        crds.wait_until(|is_rejected| !is_rejected).await;
        crds
    }

    /// Restores the original CRDs.
    pub(super) async fn restore(self) {
        self.write(self.schemas.clone()).await;
        self.wait_until(|is_rejected| is_rejected).await;
    }

    async fn write(&self, schemas: Vec<Value>) {
        let crds = Api::<CustomResourceDefinition>::all(self.client.clone());
        for ((_, name, _), schema) in KINDS.iter().zip(schemas) {
            let patch = json!([{ "op": "replace", "path": SCHEMA, "value": schema }]);
            let patch: json_patch::Patch = serde_json::from_value(patch).expect("a patch");
            let patch = Patch::Json::<()>(patch);
            crds.patch(name, &PatchParams::default(), &patch).await.expect("the schema is replaced");
        }
    }

    /// Waits until the API server applies the new schemas, a moment after they are stored.
    async fn wait_until(&self, is_done: impl Fn(bool) -> bool) {
        for (kind, _, spec) in KINDS {
            let applied = async {
                while !is_done(self.is_rejected(kind, spec).await) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(TIMEOUT, applied)
                .await
                .unwrap_or_else(|_| panic!("the API server still applies the previous schema of {kind}"));
        }
    }

    async fn is_rejected(&self, kind: &str, spec: &str) -> bool {
        let resource: ApiResource = resource(kind);
        let spec: Value = serde_json::from_str(spec).expect("JSON");
        let object = DynamicObject::new("probe", &resource).data(json!({ "spec": spec }));
        let api = match kind {
            "ClusterTopology" | "ClusterTopologyBinding" => Api::all_with(self.client.clone(), &resource),
            _ => Api::namespaced_with(self.client.clone(), "default", &resource),
        };
        let params = PostParams { dry_run: true, ..PostParams::default() };
        match api.create(&params, &object).await {
            Ok(_) => false,
            // The API server still calls an unregistered webhook for a moment.
            Err(kube::Error::Api(status)) => !status.message.contains("webhook"),
            Err(error) => panic!("{kind}: {error}"),
        }
    }
}
