//! Code that the verbs and the tests of this crate share: the generated files, and the comparison of permissions with requests.

pub mod generate;
pub mod permissions;
