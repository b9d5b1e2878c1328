//! What is generated from the code, for the verb that writes it and the test that compares it.

pub mod generate;
