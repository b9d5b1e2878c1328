//! What Grove promises its users, on a real control plane. Run with `cargo xtask test`.

#![allow(clippy::expect_used, clippy::panic, reason = "whatever fails here fails the test")]

#[path = "it/conflicts.rs"]
mod conflicts;
#[path = "it/deletion.rs"]
mod deletion;
#[path = "it/faults.rs"]
mod faults;
#[path = "it/healing.rs"]
mod healing;
#[path = "it/objects.rs"]
mod objects;
#[path = "it/scale.rs"]
mod scale;
#[path = "it/steady.rs"]
mod steady;
