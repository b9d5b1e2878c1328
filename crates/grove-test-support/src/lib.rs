//! Support for tests of several crates: the rows of the admission tables, a fuzz runner with random edits of the objects of these
//! rows, and a mock API server. No shipped crate uses it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a panic fails the test that uses it")]

pub mod edits;
pub mod fuzz;
pub mod list_items;
pub mod mock_api_server;
pub mod reviews;
pub mod rows;
