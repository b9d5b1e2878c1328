//! The `PodGroup`s of gangs, by which schedulers schedule the pods of a gang together. Each scheduler has one file, which implements
//! [`PodGroupApi`], and one arm in [`backend`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};

use grove_api_types::annotation_value::UnreadableAnnotation;
use grove_api_types::conditions::gang_scheduling;
use grove_api_types::configuration::Schedulers;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGroup as GangGroup};
use grove_controller::children::{ByName, ChildKinds, ObservedChildren, OwnerKind};
use grove_controller::group_kind::group_kind_of;
use grove_controller::plan::Waiting;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::status_patch::StatusOwnership;
use grove_runtime::caches::{Availability, InformerOptions};
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::ResourceExt;
use serde_json::Value;

use crate::slim_clique::SlimClique;

mod kai;
mod object;
mod volcano;
pub(crate) mod workload_api;

pub(crate) use self::kai::Kai;
pub(crate) use self::object::{LivePodGroup, PodGroup};
pub(crate) use self::volcano::Volcano;
pub(crate) use self::workload_api::WorkloadApi;

/// The API of a scheduler.
pub(crate) trait PodGroupApi: Send + Sync + 'static {
    /// The scheduler.
    const SCHEDULER: Scheduler;
    /// The API group.
    const GROUP: &'static str;
    /// Changes to the other version of the API, and returns its URL path; `None` if the API has only one version.
    const USE_OTHER_VERSION: Option<fn() -> String> = None;
    /// Whether the `PodGroup` has the annotations of its gang, besides the labels.
    const HAS_ANNOTATIONS: bool;
    /// The reason of the warning about a gang without a `PodGroup` because [`spec`](Self::spec) is unknown.
    const UNKNOWN_SPEC_EVENT: &'static str;
    /// Labels that the scheduler may change after the create.
    const RETAINED_LABELS: &'static [&'static str];
    /// Whether the API server denies each change of the spec. Then the spec of a live `PodGroup` is neither compared nor patched.
    const HAS_IMMUTABLE_SPEC: bool = false;
    /// Whether the `PodGroup` of a scaled gang is created only once its base gang is scheduled.
    const AWAITS_BASE_GANG: bool = false;
    /// The consequence of the deletion of a `PodGroup`, for a message about a terminating one.
    const AFTER_DELETION: &'static str = "its successor is created then";

    /// The version.
    fn version() -> &'static str;

    /// The name of the `PodGroup` of a gang; `None` if the gang has none.
    fn name(gang: &PodGang) -> Option<String> {
        Some(gang.name_any())
    }

    /// Why the annotations of the gang cannot be read. Then all `PodGroup`s of the gang stay as they are.
    fn unreadable_annotation(_gang: &PodGang) -> Option<UnreadableAnnotation> {
        None
    }

    /// Fields of the spec that others may change after the create. They are compared only if they are missing.
    fn retained_fields(gang: &PodGang) -> &'static [&'static str];

    /// The desired spec. A null requires that a field is absent. Otherwise the reason why the gang has no `PodGroup`.
    fn spec(gang: &PodGang) -> Result<Value, Waiting>;

    /// A spec in the format of the [version](Self::version).
    fn encode(spec: Value) -> Value {
        spec
    }

    /// What the scheduler reports in the status of the `PodGroup`; `None` if it reports nothing.
    fn message(status: &Value) -> Option<String>;

    /// What an administrator does so that the API server serves the kind.
    fn not_served_remedy() -> String {
        format!("install {}", Self::SCHEDULER.name())
    }
}

/// Gangs as owners of `PodGroup`s.
#[derive(Debug)]
pub(crate) struct GangOwner;

impl OwnerKind for GangOwner {
    type Object = PodGang;
    type Expansion<'a> = GangExpansion<'a>;
    const STATUS_OWNERSHIP: StatusOwnership = StatusOwnership::SharedConditions;
}

/// A gang with everything that its `PodGroup` is computed from.
#[derive(Clone, Debug)]
pub(crate) struct GangExpansion<'a> {
    /// The gang.
    pub(crate) gang: &'a PodGang,
    /// Its scheduler.
    pub(crate) scheduler: Scheduler,
    /// Its `PodGroup`; `None` if it has none.
    pub(crate) pod_group: Option<DesiredPodGroup>,
}

/// The `PodGroup` that a gang should have.
#[derive(Clone, Debug)]
pub(crate) struct DesiredPodGroup {
    /// Its name.
    pub(crate) name: String,
    /// Its spec, or the reason why the spec is unknown.
    pub(crate) spec: Result<Value, Waiting>,
    /// Why it is not created yet although the spec may be known.
    pub(crate) delay: Option<Waiting>,
}

impl DesiredPodGroup {
    /// Why it cannot be created now.
    pub(crate) fn blocked_by(&self) -> Option<&Waiting> {
        self.spec.as_ref().err().or(self.delay.as_ref())
    }
}

/// The functions of a scheduler that reads `PodGroup`s.
pub(crate) struct PodGroupBackend {
    scheduler: Scheduler,
    /// The API group.
    group: &'static str,
    /// The permission on the `PodGroup`s.
    rule: fn() -> PolicyRule,
    /// Group and kind of the `PodGroup`s.
    pub(crate) group_kind: fn() -> String,
    start_informer: fn(&SharedInformerFactory),
    availability: fn(&SharedInformerFactory) -> Availability,
    /// See [`PodGroupApi::not_served_remedy`].
    not_served_remedy: fn() -> String,
    /// See [`PodGroupApi::name`].
    pub(crate) name: fn(&PodGang) -> Option<String>,
    /// See [`PodGroupApi::unreadable_annotation`].
    pub(crate) unreadable_annotation: fn(&PodGang) -> Option<UnreadableAnnotation>,
    /// See [`PodGroupApi::spec`].
    pub(crate) spec: fn(&PodGang) -> Result<Value, Waiting>,
    /// See [`PodGroupApi::UNKNOWN_SPEC_EVENT`].
    pub(crate) unknown_spec_event: &'static str,
    /// See [`PodGroupApi::AWAITS_BASE_GANG`].
    pub(crate) awaits_base_gang: bool,
    /// See [`PodGroupApi::AFTER_DELETION`].
    pub(crate) after_deletion: &'static str,
    /// The `PodGroup` of this name, if it is a child.
    pub(crate) live: for<'a> fn(&'a ObservedChildren, &str) -> Option<LivePodGroup<'a>>,
}

impl Debug for PodGroupBackend {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodGroupBackend").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl PodGroupBackend {
    const fn of<A: PodGroupApi>() -> Self {
        Self {
            scheduler: A::SCHEDULER,
            group: A::GROUP,
            rule: rule::<A>,
            group_kind: group_kind_of::<PodGroup<A>>,
            start_informer: |informers| {
                let options = InformerOptions::<PodGroup<A>>::default().optional();
                let options = A::USE_OTHER_VERSION.into_iter().fold(options, InformerOptions::with_other_version);
                drop(informers.cache_with(options));
            },
            availability: |informers| informers.cache::<PodGroup<A>>().availability(),
            not_served_remedy: A::not_served_remedy,
            name: A::name,
            unreadable_annotation: A::unreadable_annotation,
            spec: A::spec,
            unknown_spec_event: A::UNKNOWN_SPEC_EVENT,
            awaits_base_gang: A::AWAITS_BASE_GANG,
            after_deletion: A::AFTER_DELETION,
            live: live::<A>,
        }
    }

    /// Why no `PodGroup` can be created; `None` if the API server serves them and the service may read them.
    pub(crate) fn unavailable(&self, availability: Availability) -> Option<Waiting> {
        let (kind, name) = (format!("podgroups.{}", self.group), self.scheduler.name());
        let (reason, message) = match availability {
            Availability::Served => return None,
            Availability::NotServed => (
                gang_scheduling::POD_GROUPS_NOT_SERVED,
                format!("the API server does not serve {kind}; {}", (self.not_served_remedy)()),
            ),
            Availability::Forbidden => (
                gang_scheduling::POD_GROUPS_FORBIDDEN,
                format!("topology-controller must not read {kind}; add the component deploy/components/{name}"),
            ),
        };
        Some(Waiting::new(reason, message))
    }
}

/// Nothing of the gang is written until its annotations can be read.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a closure for map_err")]
pub(crate) fn unreadable(error: UnreadableAnnotation) -> Waiting {
    let message = format!("the PodGroup of the gang stays as it is: {}", error.message("topology-controller"));
    Waiting::new(gang_scheduling::UNREADABLE_ANNOTATION, message)
}

fn live<'a, A: PodGroupApi>(children: &'a ObservedChildren, name: &str) -> Option<LivePodGroup<'a>> {
    children.get::<PodGroup<A>>(name).map(|group| group.as_live())
}

/// The `PodGroup`s of a scheduler; `None` if it reads none.
pub(crate) fn backend(scheduler: Scheduler) -> Option<&'static PodGroupBackend> {
    static WORKLOAD_API: PodGroupBackend = PodGroupBackend::of::<WorkloadApi>();
    static KAI: PodGroupBackend = PodGroupBackend::of::<Kai>();
    static VOLCANO: PodGroupBackend = PodGroupBackend::of::<Volcano>();
    match scheduler {
        Scheduler::Kube => Some(&WORKLOAD_API),
        Scheduler::Kai => Some(&KAI),
        Scheduler::Volcano => Some(&VOLCANO),
        Scheduler::Lpx => None,
    }
}

fn backends() -> impl Iterator<Item = &'static PodGroupBackend> {
    Scheduler::ALL.into_iter().filter_map(|(_, scheduler)| backend(scheduler))
}

/// Starts the informers of the configured schedulers. Without permission for the kind of one scheduler, the gangs of the others are
/// reconciled. Returns the kinds in `all` of these schedulers.
pub(crate) fn start_informers(
    all: &ChildKinds<GangOwner>,
    schedulers: &Schedulers,
    informers: &SharedInformerFactory,
) -> ChildKinds<GangOwner> {
    let configured = || backends().filter(|backend| schedulers.contains(backend.scheduler));
    configured().for_each(|backend| (backend.start_informer)(informers));
    let kinds: Vec<String> = configured().map(|backend| (backend.group_kind)()).collect();
    all.select(|kind| kinds.iter().any(|configured| configured == kind))
}

/// Whether the API server lists the `PodGroup`s of a configured scheduler; `None` if the service reads none of this scheduler.
pub(crate) fn availability(scheduler: Scheduler, informers: &SharedInformerFactory) -> Option<Availability> {
    backend(scheduler).map(|backend| (backend.availability)(informers))
}

/// The permissions on the `PodGroup`s of each scheduler.
pub(crate) fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    backends().map(|backend| (backend.scheduler, vec![(backend.rule)()])).collect()
}

/// The permission on the `PodGroup`s of one scheduler.
pub(crate) fn rule<A: PodGroupApi>() -> PolicyRule {
    PolicyRule::for_resource::<PodGroup<A>>(&Verb::MANAGE, "create, patch and delete the PodGroups of gangs")
}

/// The gang as its users want it now: without the pod groups of cliques that are scaled to zero, and with smaller minimums of cliques that are
/// scaled below theirs. Otherwise a scheduler waits for pods that are not wanted, and evicts the others. A gang without any wanted pod stays.
pub(crate) fn as_wanted<'a>(gang: &'a PodGang, cliques: &ByName<SlimClique>) -> Cow<'a, PodGang> {
    let required =
        |group: &GangGroup| group.required_replicas(cliques.get(&group.name).map(|clique| clique.replicas()));
    let groups = &gang.spec.podgroups;
    let is_wanted = |group: &GangGroup| required(group) > 0 || group.min_replicas <= 0;
    if groups.iter().all(|group| required(group) == group.min_replicas) || !groups.iter().any(is_wanted) {
        return Cow::Borrowed(gang);
    }
    let mut wanted = gang.clone();
    let names: BTreeSet<&str> =
        groups.iter().filter(|group| is_wanted(group)).map(|group| group.name.as_str()).collect();
    wanted.spec.podgroups.retain(|group| names.contains(group.name.as_str()));
    for group in &mut wanted.spec.podgroups {
        group.min_replicas = required(group);
    }
    for config in &mut wanted.spec.topology_constraint_group_configs {
        config.pod_group_names.retain(|name| names.contains(name.as_str()));
    }
    Cow::Owned(wanted)
}

/// The sum of the minimum numbers of pods of all pod groups of the gang.
fn min_member(gang: &PodGang) -> i32 {
    gang.spec.podgroups.iter().fold(0, |sum, group: &GangGroup| sum.saturating_add(group.min_replicas))
}

#[cfg(test)]
mod tests {
    use grove_api_types::scheduler::GangSupport;

    use super::*;

    #[test]
    fn every_scheduler_that_reads_pod_groups_has_a_backend() {
        for (name, scheduler) in Scheduler::ALL {
            let reads_pod_groups = scheduler.gang_support() != GangSupport::None;
            assert_eq!(
                backend(scheduler).map(|backend| backend.scheduler),
                reads_pod_groups.then_some(scheduler),
                "{name}"
            );
        }
    }
}
