//! The init container `grove-initc` of a pod with parents, and its volumes. They have the names and the order of the Go operator, which sets
//! neither resources nor a security context.

use grove_api_types::configuration::StartupToken;
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueSetName, TokenSecretName};
use grove_api_types::startup::{
    CA_FILE, GANG_FILE, INIT_CONTAINER, NAMESPACE_FILE, POD_INFO_DIR, POD_INFO_VOLUME, TOKEN_DIR, TOKEN_FILE,
    TOKEN_VOLUME,
};
use serde_json::{Map, Value, json};

use super::observed::ObservedStartup;

/// The user and the group of the init container: those of its image.
const USER: u32 = 65532;
/// The permissions of the files of the token: 0644. The user of the container is not their owner.
const TOKEN_MODE: u32 = 420;
/// The time after which a projected token expires, in seconds. The kubelet renews it before.
const TOKEN_EXPIRATION: u32 = 3600;
/// The `ConfigMap` of each namespace with the certificate of the CA of the API server.
const CA_CONFIG_MAP: &str = "kube-root-ca.crt";

/// Appends the init container to those of the user, and its volumes, if a parent needs ready pods and the image is known.
pub(crate) fn add_init_container(spec: &mut Map<String, Value>, startup: &ObservedStartup, set: &PodCliqueSetName) {
    let args = startup.arguments();
    let Some(image) = startup.init_container.image.as_ref().filter(|_| !args.is_empty()) else { return };
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path, "readOnly": true });
    let container = json!({
        "name": INIT_CONTAINER,
        "image": image,
        "args": args,
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
        // The pod may have another user, and other rules for its containers.
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "volumeMounts": [mount(POD_INFO_VOLUME, POD_INFO_DIR), mount(TOKEN_VOLUME, TOKEN_DIR)],
    });
    append(spec, "initContainers", [container]);
    append(spec, "volumes", [token_volume(startup.init_container.token, set), pod_info_volume()]);
}

fn append<const N: usize>(spec: &mut Map<String, Value>, list: &str, added: [Value; N]) {
    let list = spec.entry(list).or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(added);
    }
}

fn token_volume(token: StartupToken, set: &PodCliqueSetName) -> Value {
    match token {
        StartupToken::Secret => {
            let secret = json!({ "secretName": TokenSecretName::of_set(set), "defaultMode": TOKEN_MODE });
            json!({ "name": TOKEN_VOLUME, "secret": secret })
        }
        StartupToken::Projected => {
            let token = json!({ "path": TOKEN_FILE, "expirationSeconds": TOKEN_EXPIRATION });
            let ca = json!({ "name": CA_CONFIG_MAP, "items": [{ "key": CA_FILE, "path": CA_FILE }] });
            let sources = json!([{ "serviceAccountToken": token }, { "configMap": ca }]);
            json!({ "name": TOKEN_VOLUME, "projected": { "sources": sources, "defaultMode": TOKEN_MODE } })
        }
    }
}

fn pod_info_volume() -> Value {
    let file = |path: &str, field: &str| json!({ "path": path, "fieldRef": { "fieldPath": field } });
    let gang = format!("metadata.labels['{}']", labels::POD_GANG);
    let items = [file(NAMESPACE_FILE, "metadata.namespace"), file(GANG_FILE, &gang)];
    json!({ "name": POD_INFO_VOLUME, "downwardAPI": { "items": items } })
}
