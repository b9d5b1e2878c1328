//! Where things lie in this clone.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The folder of the workspace's Cargo.toml.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).unwrap_or(here)
}

/// Cargo in this clone. What `cargo run` tells this process about itself is taken away again: build scripts listen to
/// it, and would compile anew what a plain `cargo test` has compiled.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).kill_on_drop(true);
    let told = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in told.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
        cargo.env_remove(name);
    }
    cargo
}

/// The folder of pins, stages and manifests that the control plane is made from.
pub(crate) fn control_plane() -> PathBuf {
    root().join("hack/controlplane")
}

/// The plane's folder, absolute: it is written into kubeconfigs and command lines.
pub(crate) fn plane_dir(wished: Option<PathBuf>) -> PathBuf {
    let dir = wished.unwrap_or_else(|| root().join("target/grove"));
    std::path::absolute(&dir).unwrap_or(dir)
}

/// The folder that Cargo builds the binaries of this clone into: the one that this very binary was started from.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this binary lies")?;
    Ok(own.with_file_name(name))
}

/// Writes a file that only its owner may read, in one step: a reader sees the old content or the new.
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
