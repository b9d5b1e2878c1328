//! The films of `docs/rehearsals/`, and explorations.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

/// An inline module, so that Cargo does not build each file of `it/` as a test binary.
mod it {
    mod defects;
    mod explorations;
    mod films;
}
