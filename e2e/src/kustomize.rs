//! Kustomizations as users write them: bases in `deploy/` with components.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kubectl::kubectl_on;
use crate::test_cluster::TestCluster;

/// Objects by kind and name, such as `Service/webhook-server`.
pub type RenderedManifests = BTreeMap<String, Value>;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// Writes a kustomization of a base with components into the cluster's folder, and returns its folder.
///
/// # Panics
/// If it cannot be written.
pub fn overlay(cluster: &TestCluster, base: &str, components: &[&str]) -> PathBuf {
    write_overlay(cluster, &[base], components, json!({}))
}

/// Writes a kustomization of bases with components in another namespace, as the documentation describes it.
///
/// # Panics
/// If it cannot be written.
pub fn overlay_in(cluster: &TestCluster, namespace: &str, bases: &[&str], components: &[&str]) -> PathBuf {
    let fields = json!({ "namespace": namespace, "replacements": [{ "path": "namespace.yaml" }] });
    let folder = write_overlay(cluster, bases, components, fields);
    // Kustomize reads files only below the folder of the kustomization.
    std::fs::copy(Path::new(DEPLOY).join("namespace.yaml"), folder.join("namespace.yaml")).expect("the file is copied");
    folder
}

fn write_overlay(cluster: &TestCluster, bases: &[&str], components: &[&str], mut fields: Value) -> PathBuf {
    let names = ["overlay"].into_iter().chain(bases.iter().copied()).chain(components.iter().copied());
    let folder = cluster.dir().join(names.collect::<Vec<_>>().join("-"));
    std::fs::create_dir_all(&folder).expect("a folder");
    // Kustomize accepts only relative paths.
    let depth = folder.canonicalize().expect("the folder exists").components().count() - 1;
    let deploy = Path::new(DEPLOY).canonicalize().expect("the folder of manifests");
    let deploy = ["../".repeat(depth), deploy.display().to_string().trim_start_matches('/').to_owned()].concat();
    let paths = |kind: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{deploy}/{kind}/{name}")).collect()
    };
    fields["resources"] = json!(paths("base", bases));
    fields["components"] = json!(paths("components", components));
    std::fs::write(folder.join("kustomization.yaml"), fields.to_string()).expect("the kustomization is written");
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
