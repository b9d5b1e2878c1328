//! The rules of admission as tables: each row is a valid object, changes to it, and the exact result. The documentation page
//! is generated from the same rows, and other tests check invariants (`laws.rs`) with the objects of the rows.

mod benchmark;
mod defaults;
mod documentation;
mod examples;
mod facts;
mod fuzz;
mod large_objects;
mod laws;
mod managed_objects;
mod name_collisions;
mod ratcheting;
mod rule_coverage;
mod scale;
mod source_coverage;
mod validation_results;
