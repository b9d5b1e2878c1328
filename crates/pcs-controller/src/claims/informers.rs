//! The claims that pods share, and the templates of the claims: the informers, the live reads of templates, and what triggers a reconcile.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use grove_api_types::labels;
use grove_api_types::resource_claim::{ResourceClaim, SharingLevel, SlimResourceClaimTemplate};
use grove_api_types::resource_sharing::{MAX_REFERENCES, SharedClaim, of_group, of_set};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::manager::Manager;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Waiting;
use grove_controller::resource_claims::{self, CLAIMS_BY_LEVEL, TemplateReadErrors, read_template};
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::template_access::TemplateAccess;
use grove_runtime::caches::{Cache, Delta, Index, IndexScope, InformerOptions};
use grove_runtime::rbac::{PolicyRule, Verb};
use grove_runtime::runtime::Runtime;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, Resource, ResourceExt};

use super::observed::{ClaimInputs, ReadTemplate, TemplateKey};

/// The sets that share claims of a `ResourceClaimTemplate` at their own level or at the level of a scaling group, by its namespace and name.
pub(crate) const SETS_BY_CLAIM_TEMPLATE: Index<PodCliqueSet> =
    Index { name: "resourceClaimTemplate", values: templates_of_set, scope: IndexScope::Cluster };

fn templates_of_set(set: &PodCliqueSet) -> Vec<Cow<'_, str>> {
    let (template, namespace) = (&set.spec.template, set.metadata.namespace.as_deref().unwrap_or_default());
    let of_groups = template.pod_clique_scaling_groups.iter().flat_map(of_group);
    let key = |share: SharedClaim<'_>| template_key(share.namespace.unwrap_or(namespace), share.template);
    of_set(template).into_iter().chain(of_groups).map(|share| Cow::Owned(key(share))).collect()
}

/// Neither a namespace nor a name contains a slash.
fn template_key(namespace: &str, name: &str) -> String {
    [namespace, name].join("/")
}

/// The claims and the templates of the cluster. A clone shares the caches.
#[derive(Clone, Debug)]
pub(crate) struct ClaimCaches {
    claims: Cache<ResourceClaim>,
    templates: Cache<SlimResourceClaimTemplate>,
    pub(crate) access: TemplateAccess,
}

impl ClaimCaches {
    /// Starts the informers. Sets that share no claims need neither the kinds nor the permissions.
    pub(crate) fn start(runtime: &Runtime, informers: &SharedInformerFactory) -> Self {
        let claims = InformerOptions::default().optional().with_sum(CLAIMS_BY_LEVEL);
        Self {
            claims: informers.cache_with(claims),
            templates: informers.cache_with(InformerOptions::default().optional()),
            access: TemplateAccess::start(runtime),
        }
    }

    /// Registers the metric `grove_resource_claims` with the levels that this service manages.
    ///
    /// # Errors
    /// If the metric is already registered.
    pub(crate) fn register_metric(&self, manager: &Manager) -> anyhow::Result<()> {
        resource_claims::register_metric(manager, &self.claims, &[SharingLevel::Set, SharingLevel::Group])
    }

    /// What decides about the claims of an owner with these name conflicts, without the templates. A change of the availability triggers all
    /// sets and groups. `referenced` are the names of the claims that cliques refer to.
    pub(crate) fn inputs(&self, conflicts: &[NameConflict], referenced: BTreeSet<String>) -> ClaimInputs {
        ClaimInputs {
            unavailable: unavailable(&self.claims),
            unavailable_templates: unavailable(&self.templates),
            denied_templates: self.access.denied(),
            templates: BTreeMap::new(),
            conflicting: ClaimInputs::conflicting(conflicts),
            referenced,
        }
    }

    /// Reads these templates, and adds them to `templates`. The value is whether an object of this name can exist. A template that the cache
    /// lacks does not exist: its creation triggers the sets and groups that refer to it, and a user could refer to many that never exist.
    /// One reconcile reads at most [`MAX_REFERENCES`] templates: the creates of their claims trigger the next one. The claims of a template
    /// that was not read wait.
    pub(crate) async fn read_templates(
        &self,
        client: &Client,
        keys: BTreeMap<TemplateKey, bool>,
        templates: &mut BTreeMap<TemplateKey, ReadTemplate>,
    ) -> TemplateReadErrors {
        let mut errors = TemplateReadErrors::default();
        let mut reads = 0;
        for (key, is_valid) in keys {
            let exists = is_valid && self.templates.contains(&key.namespace, &key.name);
            reads += usize::from(exists);
            if exists && reads > MAX_REFERENCES {
                continue;
            }
            let read = if exists { read_template(client, &key.namespace, &key.name).await } else { Ok(None) };
            let template = match read {
                Ok(Some(template)) => ReadTemplate::Found(Arc::new(template)),
                Ok(None) => ReadTemplate::NotFound,
                Err(error) => ReadTemplate::Unreadable(errors.record(key.to_string(), &error)),
            };
            templates.insert(key, template);
            if errors.is_outage() {
                break;
            }
        }
        errors
    }

    /// The sets that share claims of a template that was created.
    pub(crate) fn sets_of_created(
        &self,
        sets: &Cache<PodCliqueSet>,
    ) -> impl Stream<Item = ObjectRef<PodCliqueSet>> + Send + 'static + use<> {
        let referring = self.referring_sets(sets);
        referring.map(|set| ObjectRef::from_obj(&*set))
    }

    /// The scaling groups of these sets.
    pub(crate) fn groups_of_created(
        &self,
        sets: &Cache<PodCliqueSet>,
        groups: &Cache<PodCliqueScalingGroup>,
    ) -> impl Stream<Item = ObjectRef<PodCliqueScalingGroup>> + Send + 'static + use<> {
        let groups = groups.clone();
        self.referring_sets(sets).flat_map(move |set| {
            let of_set = groups.owned_by(&set.namespace().unwrap_or_default(), &set.uid().unwrap_or_default());
            stream::iter(of_set).map(|group| ObjectRef::from_obj(&*group))
        })
    }

    fn referring_sets(
        &self,
        sets: &Cache<PodCliqueSet>,
    ) -> impl Stream<Item = Arc<PodCliqueSet>> + Send + 'static + use<> {
        let sets = sets.clone();
        let created = self.templates.subscribe().filter_map(|delta| std::future::ready(created_template(&delta)));
        created.flat_map(move |key| stream::iter(sets.by_index(&SETS_BY_CLAIM_TEMPLATE, &key)))
    }
}

/// Why the objects of the kind can neither be read nor created; `None` if they can.
fn unavailable<K: Resource<DynamicType = ()>>(cache: &Cache<K>) -> Option<Waiting> {
    resource_claims::unavailable::<K>(cache.availability(), "pcs-controller")
}

/// The key of the template, if it was created: a set may wait for it.
fn created_template(delta: &Delta<SlimResourceClaimTemplate>) -> Option<String> {
    let created = resource_claims::created_template(delta)?;
    Some(template_key(&created.namespace().unwrap_or_default(), &created.name_any()))
}

/// The set of a deleted clique of a scaling group: a claim of the set may be deleted now.
pub(crate) fn sets_of_deleted_cliques(
    cliques: &Cache<PodClique>,
) -> impl Stream<Item = ObjectRef<PodCliqueSet>> + Send + 'static + use<> {
    cliques.subscribe().filter_map(|delta| std::future::ready(set_of_deleted_clique(&delta)))
}

fn set_of_deleted_clique(delta: &Delta<PodClique>) -> Option<ObjectRef<PodCliqueSet>> {
    let deleted = delta.old.as_ref().filter(|_| delta.is_delete())?;
    let is_of_group = deleted.labels().contains_key(labels::SCALING_GROUP);
    let set = deleted.labels().get(labels::PART_OF).filter(|_| is_of_group)?;
    deleted.annotations().get(labels::RESOURCE_CLAIMS)?;
    Some(ObjectRef::new(set).within(&deleted.namespace()?))
}

/// The permissions to read the templates and the webhook configuration.
pub(crate) fn rules() -> [PolicyRule; 2] {
    let reason = "create claims from templates of any namespace after the templates exist; get reads their content";
    [
        PolicyRule::for_resource::<SlimResourceClaimTemplate>(&[Verb::Get, Verb::List, Verb::Watch], reason),
        TemplateAccess::rule(),
    ]
}

#[cfg(test)]
mod tests;
