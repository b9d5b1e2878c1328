//! The vocabulary of the tests against a real control plane: a namespace of one's own, the world in it as the watch
//! streams tell it, and planes of one's own for tests that disturb others.
//!
//! Tests wait on what the world looks like, never on time, and know nothing of how the services work.

#![allow(clippy::expect_used, clippy::panic, reason = "the vocabulary of tests: whatever fails here fails the test")]

pub mod announced;
pub mod apart;
pub mod audit;
pub mod kubectl;
pub mod kustomize;
pub mod metrics;
pub mod namespace;
pub mod plane;
pub mod proxy;
pub mod replicas;
pub mod schema;
pub mod sets;
pub mod shown;
pub mod state;
pub mod taken_up;
pub mod victims;
pub mod world;

pub use namespace::{Namespace, in_namespace};
pub use plane::Plane;
pub use world::World;
