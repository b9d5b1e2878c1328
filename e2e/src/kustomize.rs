//! Kustomizations as users write them: one of the bases in `deploy/` with components.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kubectl::kubectl_on;
use crate::test_cluster::TestCluster;

/// Objects by kind and name, such as `Service/webhook-server`.
pub type RenderedManifests = BTreeMap<String, Value>;

/// Writes a kustomization of a base with components into the cluster's folder, and returns its folder.
///
/// # Panics
/// If it cannot be written.
pub fn overlay(cluster: &TestCluster, base: &str, components: &[&str]) -> PathBuf {
    // Kustomize accepts only relative paths.
    let folder = cluster
        .dir()
        .join(["overlay", base].into_iter().chain(components.iter().copied()).collect::<Vec<_>>().join("-"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let depth = folder.canonicalize().expect("the folder exists").components().count() - 1;
    let deploy =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy")).canonicalize().expect("the folder of manifests");
    let deploy = ["../".repeat(depth), deploy.display().to_string().trim_start_matches('/').to_owned()].concat();
    let paths: Vec<_> = components.iter().map(|component| format!("{deploy}/components/{component}")).collect();
    let text = json!({ "resources": [format!("{deploy}/base/{base}")], "components": paths }).to_string();
    std::fs::write(folder.join("kustomization.yaml"), text).expect("the kustomization is written");
    folder
}

/// Renders a kustomization with `kubectl kustomize`.
///
/// # Panics
/// If kubectl fails.
pub async fn render(cluster: &TestCluster, folder: &Path) -> RenderedManifests {
    let text =
        kubectl_on(cluster, &["kustomize", &folder.display().to_string()], "").await.expect("kubectl renders it");
    let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).expect("YAML"));
    let name = |object: &Value| {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    documents.map(|object| (name(&object), object)).collect()
}

/// The differences of two renderings: one line for each added, changed or removed object or field.
pub fn differences(before: &RenderedManifests, after: &RenderedManifests) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, object) in after {
        match before.get(name) {
            None => lines.push(format!("{name} is added")),
            Some(before) => compare(name, before, object, &mut lines),
        }
    }
    lines.extend(before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("{name} is removed")));
    lines
}

fn compare(at: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                lines.push(format!("{at}.{key} is removed"));
            }
            for (key, after) in after {
                compare(&format!("{at}.{key}"), before.get(key).unwrap_or(&Value::Null), after, lines);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, after) in after.iter().enumerate() {
                compare(&format!("{at}[{index}]"), before.get(index).unwrap_or(&Value::Null), after, lines);
            }
            lines.extend((after.len()..before.len()).map(|index| format!("{at}[{index}] is removed")));
        }
        _ if before == after => {}
        _ => lines.push(format!("{at}: {after}")),
    }
}
