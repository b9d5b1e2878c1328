//! The informers of the identities of sets. They store only objects of sets, so that the other accounts, roles and tokens of the cluster need no
//! memory.

use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::may_be_child;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_runtime::caches::{Cache, InformerOptions};
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::runtime::watcher;

use super::objects::{SlimRole, SlimRoleBinding, SlimServiceAccount, SlimTokenSecret, TOKEN_TYPE};

/// The identities of all sets. A clone shares the caches.
#[derive(Clone, Debug)]
pub(crate) struct IdentityCaches {
    pub(super) accounts: Cache<SlimServiceAccount>,
    pub(super) roles: Cache<SlimRole>,
    pub(super) bindings: Cache<SlimRoleBinding>,
    pub(super) secrets: Cache<SlimTokenSecret>,
}

impl IdentityCaches {
    /// Starts the informers. Sets without start-up order need no permission for the kinds.
    pub(crate) fn start(informers: &SharedInformerFactory) -> Self {
        // Without the selector, the API server would send all Secrets of the cluster, which may be large.
        let tokens = watcher::Config::default().fields(&format!("type={TOKEN_TYPE}"));
        Self {
            accounts: informers.cache_with(of_sets(InformerOptions::default())),
            roles: informers.cache_with(of_sets(InformerOptions::default())),
            bindings: informers.cache_with(of_sets(InformerOptions::default())),
            secrets: informers.cache_with(of_sets(tokens.into())),
        }
    }
}

fn of_sets<K: Resource>(options: InformerOptions<K>) -> InformerOptions<K> {
    options.with_filter(|object| may_be_child::<PodCliqueSet>(object.meta())).optional()
}

/// The permission for the LIST of [`is_in_use`](super::is_in_use).
pub(crate) fn rules() -> [PolicyRule; 1] {
    let reason = "find out whether a pod uses the token of a set that has no start-up order any more";
    [PolicyRule::for_resource::<Pod>(&[Verb::List], reason)]
}
