//! What the verbs and the tests of this crate share: what is generated from the code, and what its rules grant.

pub mod generate;
pub mod permissions;
