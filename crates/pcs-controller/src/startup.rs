//! The start-up order of sets ([ADR 34](../../../docs/adr/0034-startup-order.md)): the `ServiceAccount`, the Role, the `RoleBinding` and the
//! token by which the init containers of waiting pods read the pods of their gang. Which of them a set has (`observed`), the objects (`objects`) as its
//! children (`desired`), their informers (`informers`), and the live reads: whether a name is taken, and whether a pod still uses a token
//! (`live_reads`). pclq-controller adds the init container to the pods.

mod desired;
mod informers;
mod live_reads;
mod objects;
mod observed;

pub(crate) use desired::{IdentityObjects, IdentityOwner};
pub(crate) use informers::{IdentityCaches, rules};
pub(crate) use live_reads::{is_in_use, name_conflicts};
pub(crate) use objects::{SlimRole, SlimRoleBinding, SlimServiceAccount, SlimTokenSecret};
pub(crate) use observed::{Identity, has_foreign_account, identity_conflict};
