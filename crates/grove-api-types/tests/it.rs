//! All integration tests of the crate, in one binary: each binary costs seconds to link.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod admission;
mod compute_domain;
mod configuration;
mod crds;
mod defaults;
mod expansion;
mod hash;
mod mnnvl;
mod names;
mod resource_sharing;
mod unsupported_fields;
mod wire;
