//! The images of the manifests have names that no registry serves, and the page for operators sets all of them.

use super::{source::Source, tree};
use std::fs;

const PREFIX: &str = "localhost/grove/";
const PAGE: &str = "docs/operations.md";

/// The images of a manifest, without their tags.
fn images(manifest: &str) -> impl Iterator<Item = &str> {
    let values = manifest.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("image: "));
    values.map(|image| image.split(':').next().unwrap_or(image))
}

fn violations(Source { path, text }: &Source, page: &str) -> Vec<String> {
    let is_wrong = |image: &&str| !image.starts_with(PREFIX) || !page.contains(&format!("{{name: {image}, newName: "));
    let wrong = images(text).filter(is_wrong);
    wrong.map(|image| format!("{path}: {image} does not begin with {PREFIX}, or lacks a row in {PAGE}")).collect()
}

#[test]
fn no_registry_serves_the_images_of_the_manifests() {
    let page = fs::read_to_string(tree::root().join(PAGE)).unwrap();
    // The examples run images of others.
    let manifests = tree::files(&[".yaml"]).into_iter().filter(|file| file.path.starts_with("deploy/base/"));
    let manifests: Vec<_> = manifests.collect();
    tree::assert_none(&manifests.iter().flat_map(|manifest| violations(manifest, &page)).collect::<Vec<_>>());
    assert!(manifests.iter().flat_map(|manifest| images(&manifest.text)).count() >= 5, "{PREFIX} has the services");
}

#[test]
fn an_image_of_a_registry_and_one_without_a_row_are_found() {
    let page = "  - {name: localhost/grove/a, newName: registry.example.com/grove/a}";
    let of = |image: &str| violations(&Source::new("m.yaml", &format!("- name: a\n  image: {image}:0.1.0\n")), page);
    tree::assert_none(&of("localhost/grove/a"));
    for image in ["grove/a", "localhost/grove/b"] {
        tree::assert_one(&of(image), image);
    }
}
