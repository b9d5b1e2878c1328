//! The rules of admission as a table: each row is a valid object, what is changed about it, and the exact answer. The same
//! rows are a page of the documentation, and the objects of the laws that hold for all of them.

#![allow(clippy::expect_used, clippy::panic, reason = "whatever fails here fails the test")]

mod clashes;
mod fuzzed;
mod hostile;
mod kept;
mod known;
mod laws;
mod managed;
mod page;
mod patches;
mod scales;
mod shapes;
mod shown;
mod sources;
mod speed;
mod verdicts;
