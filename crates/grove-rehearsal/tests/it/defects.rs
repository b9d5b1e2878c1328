//! The planted defects of `defects.yaml` fit the code: `cargo xtask soak defects` shows that the films find them.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defect {
    rule: String,
    film: String,
    file: String,
    line: String,
    replacement: String,
}

#[test]
fn each_planted_defect_fits_one_line_and_names_a_film() {
    let defects: Vec<Defect> = serde_saphyr::from_str(include_str!("../../defects.yaml")).expect("a list of defects");
    assert!(!defects.is_empty());
    for Defect { rule, film, file, line, replacement } in defects {
        let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
        let content = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(content.matches(&line).count(), 1, "{rule}: {file} has one line {line:?}");
        assert_ne!(line, replacement, "{rule}");
        assert!(include_str!("films.rs").contains(&format!("fn {film}()")), "{rule}: the film {film} exists");
    }
}
