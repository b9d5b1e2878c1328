//! Definitions as they may have been before they had rules: what is refused today could be stored then, and can be changed now.

use e2e::{schema, world::LIMIT};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::cluster_state::resource;

/// Kinds, and what of each nobody may store today.
const KINDS: [(&str, &str, &str); 5] = [
    ("PodCliqueSet", "podcliquesets.grove.io", r#"{"template":{"cliques":[]}}"#),
    ("PodCliqueScalingGroup", "podcliquescalinggroups.grove.io", r#"{"cliqueNames":["a"],"replicas":100001}"#),
    ("PodClique", "podcliques.grove.io", r#"{"podSpec":{"containers":[{"name":"a"}]},"replicas":100001}"#),
    ("ClusterTopology", "clustertopologies.grove.io", r#"{"levels":[]}"#),
    ("ClusterTopologyBinding", "clustertopologybindings.grove.io", r#"{"levels":[]}"#),
];
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
/// What a schema says of values, beyond their types.
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

pub(super) struct Definitions {
    client: Client,
    schemas: Vec<Value>,
}

impl Definitions {
    /// Takes the rules out of them.
    pub(super) async fn without_rules(client: &Client) -> Self {
        let mut definitions = Self { client: client.clone(), schemas: Vec::new() };
        for (_, name, _) in KINDS {
            let definition =
                Api::<CustomResourceDefinition>::all(client.clone()).get(name).await.expect("it is defined");
            let definition = serde_json::to_value(definition).expect("JSON");
            definitions.schemas.push(definition.pointer(SCHEMA).expect("a schema").clone());
        }
        let older = definitions.schemas.iter().cloned().map(|mut schema| {
            schema::without(&RULES, &mut schema);
            schema
        });
        definitions.write(older.collect()).await;
        definitions.until(|is_refused| !is_refused).await;
        definitions
    }

    /// They are again as they are shipped.
    pub(super) async fn restore(self) {
        self.write(self.schemas.clone()).await;
        self.until(|is_refused| is_refused).await;
    }

    async fn write(&self, schemas: Vec<Value>) {
        let definitions = Api::<CustomResourceDefinition>::all(self.client.clone());
        for ((_, name, _), schema) in KINDS.iter().zip(schemas) {
            let patch = json!([{ "op": "replace", "path": SCHEMA, "value": schema }]);
            let patch: json_patch::Patch = serde_json::from_value(patch).expect("a patch");
            let patch = Patch::Json::<()>(patch);
            definitions.patch(name, &PatchParams::default(), &patch).await.expect("it is written");
        }
    }

    /// The API server goes by a definition a moment after it was written.
    async fn until(&self, is_so: impl Fn(bool) -> bool) {
        for (kind, _, spec) in KINDS {
            let heard = async {
                while !is_so(self.is_refused(kind, spec).await) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(LIMIT, heard).await.unwrap_or_else(|_| panic!("{kind} is judged as before"));
        }
    }

    async fn is_refused(&self, kind: &str, spec: &str) -> bool {
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
            // A webhook that was taken away is asked for a moment still.
            Err(kube::Error::Api(status)) => !status.message.contains("webhook"),
            Err(error) => panic!("{kind}: {error}"),
        }
    }
}
