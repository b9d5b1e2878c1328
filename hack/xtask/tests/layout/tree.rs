//! The files that the rules check, and the assertions of the layout tests.

use super::source::Source;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Every file of the workspace whose name ends in one of `endings`, sorted by path.
pub(crate) fn files(endings: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    collect(root(), endings, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no file ends in {endings:?} under {}", root().display());
    found
}

/// Every Rust file.
pub(crate) fn sources() -> Vec<Source> {
    files(&[".rs"])
}

/// The manifests of the workspace members, without the manifest of the workspace.
pub(crate) fn manifests() -> Vec<Source> {
    let mut manifests = files(&["Cargo.toml"]);
    manifests.retain(|manifest| manifest.path.contains('/'));
    manifests
}

/// Fails with one line per violation.
#[track_caller]
pub(crate) fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

/// Fails unless there is exactly one violation, and its message contains `words`.
#[track_caller]
pub(crate) fn assert_one(violations: &[String], words: &str) {
    assert_eq!(violations.len(), 1, "expected one violation about {words:?}: {violations:#?}");
    assert!(violations[0].contains(words), "expected {words:?} in {:?}", violations[0]);
}

fn collect(folder: &Path, endings: &[&str], found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            // These folders have no files of this repository. Other hidden folders have some: `.github`, `.cargo`.
            if !["target", ".git", "node_modules"].contains(&name.as_str()) {
                collect(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.extend(read(&path));
        }
    }
}

fn read(path: &PathBuf) -> Option<Source> {
    let text = fs::read_to_string(path).ok()?;
    let relative = path.strip_prefix(root()).ok()?;
    Some(Source::new(&relative.to_string_lossy(), &text))
}
