//! The IMEX process of a node: its files and its life.

mod files;
mod process;

pub use process::Imex;
