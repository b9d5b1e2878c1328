//! What Grove promises its users, on a real control plane. Run with `cargo xtask test`.

#![allow(clippy::expect_used, clippy::panic, reason = "whatever fails here fails the test")]

/// The rows of admission and their reader, which knows no rule.
#[allow(dead_code, unreachable_pub, reason = "other tests read other rows")]
#[path = "../../crates/grove-test-support/src/rows.rs"]
mod rows;

/// An inline module, so that the tests live in `it/` and do not become binaries of their own.
mod it {
    mod bad_input;
    mod composition;
    mod conflicts;
    mod definitions;
    mod deletion;
    mod deployment;
    mod groups;
    mod healing;
    mod identity;
    mod neighbours;
    mod objects;
    mod outdated;
    mod pods;
    mod policy;
    mod refusals;
    mod scale;
    mod shapes;
    mod waits;
    mod without_webhook;

    /// Tests that disturb others, and so have planes of their own; on a cluster of somebody's own they are not run.
    mod own_plane {
        mod admission;
        mod ask;
        mod authorizer;
        mod certificates;
        mod clocks;
        mod connection;
        mod deprived;
        mod events;
        mod failed_up;
        mod faults;
        mod kept;
        mod kills;
        mod leaders;
        mod native_gangs;
        mod rotation;
        mod set_back;
        mod steady;
        mod unjudged;
        mod webhook_kills;
    }
}
