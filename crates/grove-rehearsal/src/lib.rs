//! Rehearsals of updates: a model of a cluster with one `PodCliqueSet`, in which the pure decisions of pcs-controller and pclq-controller are the only
//! writers besides the user and the kubelets. Nothing here talks to an API server.
//!
//! `model` has the objects and applies the writes, `film` prints what happens as Markdown, and `exploration` acts in random order and checks the
//! promises to users after each step.

pub mod exploration;
pub mod film;
pub mod model;
mod store;
