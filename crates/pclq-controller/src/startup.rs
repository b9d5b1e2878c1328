//! The start-up order of cliques ([ADR 34](../../../docs/adr/0034-startup-order.md)): the pods of a clique with parents have an init container
//! that waits until enough pods of the parents are ready. The init container (`desired`), what a clique observes of its parents (`observed`),
//! why pods are not created (`plan`) or not started (`status`), and the changes of parents (`triggers`). pcs-controller creates the token of the
//! init container.

mod desired;
mod observed;
mod plan;
mod status;
mod triggers;

pub(crate) use desired::add_init_container;
#[cfg(test)]
pub(crate) use observed::ObservedParent;
pub(crate) use observed::{InitContainer, ObservedStartup, observe};
pub(crate) use plan::waiting;
pub(crate) use status::waiting_pods;
pub(crate) use triggers::{BY_PARENT, cliques_of_parent};
