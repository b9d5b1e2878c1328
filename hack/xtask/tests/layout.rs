//! The layout rules of this repository as tests: which crate may use which, which files may not do I/O, who may write
//! to the API server, how long things may get, what files may be called. Every rule is a pure function from text to
//! violations; one test runs it over the tree, another shows that it turns red on a planted violation.

/// An inline module, so that the rules live in `layout/` and do not become test binaries of their own.
mod layout {
    mod documents;
    mod edges;
    mod features;
    mod files;
    mod manifests;
    mod permissions;
    mod purity;
    mod rooms;
    mod sizes;
    mod source;
    mod tree;
    mod wording;
    mod writers;
}
