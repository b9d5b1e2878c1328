//! What a clique should consist of: its pods.

mod env;
mod pod;

pub use pod::{NewPod, own_labels, pod};
