//! The layout rules of this repository, as tests: dependencies between crates and modules, purity, writers to the API server,
//! and sizes. Every rule is a pure function from text to violations. One test applies it to the repository,
//! another shows that it finds a planted violation.

/// An inline module, so that the rules are in `layout/` and do not become test binaries of their own.
mod layout {
    mod controller_policy;
    mod crate_edges;
    mod documents;
    mod features;
    mod files;
    mod images;
    mod interface;
    mod layers;
    mod local_paths;
    mod manifests;
    mod metrics;
    mod module_cycles;
    mod permissions;
    mod probes;
    mod purity;
    mod requirements;
    mod schedulers;
    mod sizes;
    mod source;
    mod tree;
    mod watched_kinds;
    mod wording;
    mod writers;
}
