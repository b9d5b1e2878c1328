//! What tests of several crates use: the rows by which admission is told and tried, and objects that nobody would write,
//! made from those of the rows by a seed. No crate that ships uses it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "whatever fails here fails the test that uses it"
)]

pub mod dice;
pub mod fuzz;
pub mod mock_api_server;
pub mod mutation;
pub mod reviews;
pub mod rows;
