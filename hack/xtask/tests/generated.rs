//! The generated files in the repository are up to date.

use std::path::Path;

#[test]
fn generated_files_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = xtask::generate::files().expect("the generator runs");
    let stale: Vec<String> = files
        .iter()
        .filter(|(path, fresh)| std::fs::read_to_string(root.join(path)).ok().as_ref() != Some(fresh))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(stale.is_empty(), "stale: {}; run cargo xtask generate", stale.join(", "));
}

#[test]
fn a_definition_fits_a_plain_apply() {
    for crd in grove_api_types::crds::crds() {
        let size = serde_json::to_string(&crd).expect("a definition serializes").len();
        assert!(size < 200_000, "{} has {size} bytes as JSON", crd.spec.names.kind);
    }
}
