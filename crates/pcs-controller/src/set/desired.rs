//! The desired children of a set: one file per kind, independent of the existing children.

use grove_controller::children::ChildKinds;

use super::observed::SetOwner;
use crate::claims::ResourceClaims;
use crate::startup::{IdentityObjects, SlimRole, SlimRoleBinding, SlimServiceAccount, SlimTokenSecret};
use crate::update::Revisions;

mod autoscaler;
mod headless_service;
mod pod_clique;
mod pod_gang;
mod scaling_group;

/// The kinds of children of a set. Claims, gangs and the identity of waiting pods come before the cliques, so that no pod waits for one to be created; cliques and
/// groups come before their autoscalers.
///
/// To add a kind, add a file here that implements [`ChildKind`](grove_controller::children::ChildKind), its `mod` line
/// and its row in this table. ADR 18 lists the places for new names,
/// events and limits, and the generated files.
pub(crate) const CHILD_KINDS: ChildKinds<SetOwner> = ChildKinds::in_creation_order(&[
    &Revisions::<SetOwner>::ROW,
    &headless_service::HeadlessServices,
    &IdentityObjects::<SetOwner, SlimServiceAccount>::ROW,
    &IdentityObjects::<SetOwner, SlimRole>::ROW,
    &IdentityObjects::<SetOwner, SlimRoleBinding>::ROW,
    &IdentityObjects::<SetOwner, SlimTokenSecret>::ROW,
    &ResourceClaims::<SetOwner>::ROW,
    &pod_gang::PodGangs,
    &scaling_group::ScalingGroups,
    &pod_clique::PodCliques,
    &autoscaler::Autoscalers,
]);

#[cfg(test)]
pub(crate) use autoscaler::SlimAutoscaler;
#[cfg(test)]
pub(crate) use headless_service::SlimService;
