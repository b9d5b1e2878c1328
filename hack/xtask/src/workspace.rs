//! Paths in this clone, the Cargo command, and files that other processes read.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The folder of the workspace's Cargo.toml.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).unwrap_or(here)
}

/// Cargo in this clone, without the variables that `cargo run` has set for this process: build scripts depend on them, and
/// Cargo would compile again what a plain `cargo test` has compiled.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::from(blocking_cargo());
    cargo.kill_on_drop(true);
    cargo
}

/// The same as a command of the standard library.
pub(crate) fn blocking_cargo() -> std::process::Command {
    let mut cargo = std::process::Command::new("cargo");
    cargo.current_dir(root());
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in variables.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
        cargo.env_remove(name);
    }
    cargo
}

/// The folder with the pinned versions, the KWOK stages and the manifests of the control plane.
pub(crate) fn control_plane() -> PathBuf {
    root().join("hack/controlplane")
}

/// The folder of a dev cluster. It is absolute, because kubeconfigs and command lines contain it.
pub(crate) fn dev_cluster_dir(flag: Option<PathBuf>) -> PathBuf {
    let dir = flag.unwrap_or_else(|| root().join("target/grove"));
    std::path::absolute(&dir).unwrap_or(dir)
}

/// A binary of this clone. Cargo builds all binaries into one folder, the folder of the running binary.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the folder of this binary")?;
    Ok(own.with_file_name(name))
}

/// Writes a file atomically; only its owner may read it.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let fresh = path.with_added_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .with_context(|| format!("cannot write {}", fresh.display()))?;
    file.write_all(content.as_bytes())?;
    std::fs::rename(&fresh, path).with_context(|| format!("cannot write {}", path.display()))
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// Separates the manifests of one text.
pub(crate) const NEXT_MANIFEST: &str = "\n---\n";

/// A kustomization that only lists files, and patches objects. `kubectl kustomize` would take a second for all of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    resources: Vec<PathBuf>,
    /// The changes of a component.
    #[serde(default)]
    patches: Vec<ObjectPatch>,
}

/// A JSON patch of an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectPatch {
    target: PatchTarget,
    /// The operations as YAML.
    patch: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchTarget {
    kind: String,
    name: String,
}

/// The manifests in a folder, each with [`NEXT_MANIFEST`] after it. A test applies each folder with kubectl.
///
/// # Errors
/// If a file cannot be read, or `kustomization.yaml` does more than list files.
pub(crate) fn kustomization(folder: &Path) -> Result<String> {
    let read = |file: &Path| read_text(&folder.join(file));
    let manifests = read_kustomization(folder)?.resources.into_iter().map(|file| Ok(read(&file)? + NEXT_MANIFEST));
    manifests.collect()
}

/// The manifests with those of a component, and with its patches.
///
/// # Errors
/// If a file cannot be read, or if a patch does not apply.
pub(crate) fn with_component(manifests: &str, name: &str) -> Result<String> {
    let folder = root().join("deploy/components").join(name);
    let patches = read_kustomization(&folder)?.patches;
    let mut all = String::new();
    for manifest in manifests.split(NEXT_MANIFEST).filter(|manifest| !manifest.trim().is_empty()) {
        let object: Value = serde_saphyr::from_str(manifest).context("a manifest is not valid YAML")?;
        let of_object: Vec<_> = patches.iter().filter(|patch| patch.target.is(&object)).collect();
        all += &if of_object.is_empty() { manifest.to_owned() } else { patched(object, &of_object)?.to_string() };
        all += NEXT_MANIFEST;
    }
    Ok(all + &kustomization(&folder)?)
}

impl PatchTarget {
    fn is(&self, object: &Value) -> bool {
        object["kind"] == *self.kind && object["metadata"]["name"] == *self.name
    }
}

fn patched(mut object: Value, patches: &[&ObjectPatch]) -> Result<Value> {
    for patch in patches {
        let operations: json_patch::Patch = serde_saphyr::from_str(&patch.patch)?;
        json_patch::patch(&mut object, &operations).with_context(|| format!("cannot patch {}", object["kind"]))?;
    }
    Ok(object)
}

fn read_kustomization(folder: &Path) -> Result<Kustomization> {
    serde_saphyr::from_str(&read_text(&folder.join("kustomization.yaml"))?)
        .with_context(|| format!("xtask needs a list of files in {}", folder.display()))
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// All YAML files of a folder, in a stable order.
pub(crate) fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
