//! The informers of claims and of their templates.

use grove_api_types::resource_claim::{ResourceClaim, SharingLevel, SlimResourceClaimTemplate};
use grove_controller::manager::Manager;
use grove_controller::resource_claims::{self, CLAIMS_BY_LEVEL};
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::template_access::TemplateAccess;
use grove_runtime::caches::{Cache, InformerOptions};

/// The claims and the templates of the cluster.
pub(crate) struct ClaimCaches {
    /// All claims, because any of them may have the name of a claim of a clique.
    pub(crate) claims: Cache<ResourceClaim>,
    /// The identities of all templates of claims.
    pub(crate) templates: Cache<SlimResourceClaimTemplate>,
    /// Whether templates of other namespaces may be used.
    pub(crate) access: TemplateAccess,
}

impl ClaimCaches {
    /// Starts the informers. Cliques without claims need neither the kinds of claims nor the permission for them.
    pub(crate) fn start(manager: &Manager, informers: &SharedInformerFactory) -> Self {
        Self {
            claims: informers.cache_with(InformerOptions::default().optional().with_sum(CLAIMS_BY_LEVEL)),
            templates: informers.cache_with(InformerOptions::default().optional()),
            access: TemplateAccess::start(manager),
        }
    }

    /// Registers the metric `grove_resource_claims` with the level that this service manages.
    ///
    /// # Errors
    /// If the metric is already registered.
    pub(crate) fn register_metric(&self, manager: &Manager) -> anyhow::Result<()> {
        resource_claims::register_metric(manager, &self.claims, &[SharingLevel::Clique])
    }
}
