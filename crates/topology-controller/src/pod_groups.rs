//! The `PodGroup`s of gangs, by which schedulers schedule the pods of a gang together. Each API has one file with its functions, and one arm in
//! the functions of [`PodGroupApi`].

use std::borrow::Cow;
use std::collections::BTreeSet;

use grove_api_types::annotation_value::UnreadableAnnotation;
use grove_api_types::conditions::gang_scheduling;
use grove_api_types::configuration::Schedulers;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGang};
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

pub(crate) use self::object::{ApiType, Kai, LivePodGroup, PodGroup, Volcano, WorkloadApi};

/// The API of the `PodGroup`s of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodGroupApi {
    /// That of Kubernetes, which the default scheduler reads.
    Workload,
    /// That of KAI.
    Kai,
    /// That of Volcano.
    Volcano,
}

impl PodGroupApi {
    /// All APIs.
    pub(crate) const ALL: [Self; 3] = [Self::Workload, Self::Kai, Self::Volcano];

    /// The API that the scheduler reads; `None` if it reads no `PodGroup`s.
    pub(crate) fn of(scheduler: Scheduler) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.scheduler() == scheduler)
    }

    /// The scheduler.
    pub(crate) fn scheduler(self) -> Scheduler {
        match self {
            Self::Workload => Scheduler::Kube,
            Self::Kai => Scheduler::Kai,
            Self::Volcano => Scheduler::Volcano,
        }
    }

    /// The API group.
    fn group(self) -> &'static str {
        match self {
            Self::Workload => workload_api::GROUP,
            Self::Kai => kai::GROUP,
            Self::Volcano => volcano::GROUP,
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::Workload => workload_api::version(),
            Self::Kai => kai::VERSION,
            Self::Volcano => volcano::VERSION,
        }
    }

    /// The name of the `PodGroup` of a gang; `None` if the gang has none.
    pub(crate) fn name(self, gang: &PodGang) -> Option<String> {
        match self {
            Self::Workload => workload_api::name(gang),
            Self::Kai | Self::Volcano => Some(gang.name_any()),
        }
    }

    /// Why the annotations of the gang cannot be read. Then all `PodGroup`s of the gang stay as they are.
    pub(crate) fn unreadable_annotation(self, gang: &PodGang) -> Option<UnreadableAnnotation> {
        match self {
            Self::Workload => workload_api::unreadable_annotation(gang),
            Self::Kai | Self::Volcano => None,
        }
    }

    /// The desired spec. A null requires that a field is absent. Otherwise the reason why the gang has no `PodGroup`.
    pub(crate) fn spec(self, gang: &PodGang) -> Result<Value, Waiting> {
        match self {
            Self::Workload => workload_api::spec(gang),
            Self::Kai => kai::spec(gang),
            Self::Volcano => Ok(volcano::spec(gang)),
        }
    }

    /// A spec in the format of the version.
    fn encode(self, spec: Value) -> Value {
        match self {
            Self::Workload => workload_api::encode_for_version(spec),
            Self::Kai | Self::Volcano => spec,
        }
    }

    /// Fields of the spec that others may change after the create. They are compared only if they are missing.
    pub(crate) fn retained_fields(self, gang: &PodGang) -> &'static [&'static str] {
        match self {
            Self::Workload => &[],
            Self::Kai => kai::RETAINED_FIELDS,
            Self::Volcano => volcano::retained_fields(gang),
        }
    }

    /// Labels that the scheduler may change after the create.
    pub(crate) fn retained_labels(self) -> &'static [&'static str] {
        match self {
            Self::Kai => kai::RETAINED_LABELS,
            Self::Workload | Self::Volcano => &[],
        }
    }

    /// Whether the `PodGroup` has the annotations of its gang, besides the labels.
    pub(crate) fn has_annotations(self) -> bool {
        self == Self::Kai
    }

    /// Whether the API server denies each change of the spec. Then the spec of a live `PodGroup` is neither compared nor patched.
    pub(crate) fn has_immutable_spec(self) -> bool {
        self == Self::Workload
    }

    /// Whether the `PodGroup` of a scaled gang is created only once its base gang is scheduled.
    pub(crate) fn awaits_base_gang(self) -> bool {
        self == Self::Workload
    }

    /// What the scheduler reports in the status of the `PodGroup`; `None` if it reports nothing.
    fn message(self, status: &Value) -> Option<String> {
        match self {
            Self::Workload => workload_api::message(status),
            Self::Kai => kai::message(status),
            Self::Volcano => volcano::message(status),
        }
    }

    /// The reason of the warning about a gang without a `PodGroup` because [`spec`](Self::spec) is unknown.
    pub(crate) fn unknown_spec_event(self) -> &'static str {
        match self {
            Self::Kai => kai::UNKNOWN_SPEC_EVENT,
            Self::Workload | Self::Volcano => "",
        }
    }

    /// The consequence of the deletion of a `PodGroup`, for a message about a terminating one.
    pub(crate) fn after_deletion(self) -> &'static str {
        match self {
            Self::Workload => workload_api::AFTER_DELETION,
            Self::Kai | Self::Volcano => "its successor is created then",
        }
    }

    /// Why no `PodGroup` can be created; `None` if the API server serves them and the service may read them.
    pub(crate) fn unavailable(self, availability: Availability) -> Option<Waiting> {
        let (kind, name) = (format!("podgroups.{}", self.group()), self.scheduler().name());
        let (reason, message) = match availability {
            Availability::Served => return None,
            Availability::NotServed => {
                let remedy = match self {
                    Self::Workload => workload_api::not_served_remedy(),
                    Self::Kai | Self::Volcano => format!("install {name}"),
                };
                (gang_scheduling::POD_GROUPS_NOT_SERVED, format!("the API server does not serve {kind}; {remedy}"))
            }
            Availability::Forbidden => (
                gang_scheduling::POD_GROUPS_FORBIDDEN,
                format!("topology-controller must not read {kind}; add the component deploy/components/{name}"),
            ),
        };
        Some(Waiting::new(reason, message))
    }

    /// Group and kind of the `PodGroup`s.
    pub(crate) fn group_kind(self) -> String {
        match self {
            Self::Workload => group_kind_of::<PodGroup<WorkloadApi>>(),
            Self::Kai => group_kind_of::<PodGroup<Kai>>(),
            Self::Volcano => group_kind_of::<PodGroup<Volcano>>(),
        }
    }

    /// The permission on the `PodGroup`s.
    fn rule(self) -> PolicyRule {
        match self {
            Self::Workload => rule::<WorkloadApi>(),
            Self::Kai => rule::<Kai>(),
            Self::Volcano => rule::<Volcano>(),
        }
    }

    fn start_informer(self, informers: &SharedInformerFactory) {
        match self {
            Self::Workload => {
                let options = InformerOptions::<PodGroup<WorkloadApi>>::default().optional();
                drop(informers.cache_with(options.with_other_version(workload_api::use_other_version)));
            }
            Self::Kai => drop(informers.cache_with(InformerOptions::<PodGroup<Kai>>::default().optional())),
            Self::Volcano => drop(informers.cache_with(InformerOptions::<PodGroup<Volcano>>::default().optional())),
        }
    }

    fn availability(self, informers: &SharedInformerFactory) -> Availability {
        match self {
            Self::Workload => informers.cache::<PodGroup<WorkloadApi>>().availability(),
            Self::Kai => informers.cache::<PodGroup<Kai>>().availability(),
            Self::Volcano => informers.cache::<PodGroup<Volcano>>().availability(),
        }
    }

    /// The `PodGroup` of this name, if it is a child.
    pub(crate) fn live<'a>(self, children: &'a ObservedChildren, name: &str) -> Option<LivePodGroup<'a>> {
        match self {
            Self::Workload => children.get::<PodGroup<WorkloadApi>>(name).map(|group| group.as_live()),
            Self::Kai => children.get::<PodGroup<Kai>>(name).map(|group| group.as_live()),
            Self::Volcano => children.get::<PodGroup<Volcano>>(name).map(|group| group.as_live()),
        }
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

/// Nothing of the gang is written until its annotations can be read.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a closure for map_err")]
pub(crate) fn unreadable(error: UnreadableAnnotation) -> Waiting {
    let message = format!("the PodGroup of the gang stays as it is: {}", error.message("topology-controller"));
    Waiting::new(gang_scheduling::UNREADABLE_ANNOTATION, message)
}

/// Starts the informers of the configured schedulers. Without permission for the kind of one scheduler, the gangs of the others are
/// reconciled. Returns the kinds in `all` of these schedulers.
pub(crate) fn start_informers(
    all: &ChildKinds<GangOwner>,
    schedulers: &Schedulers,
    informers: &SharedInformerFactory,
) -> ChildKinds<GangOwner> {
    let configured = PodGroupApi::ALL.into_iter().filter(|api| schedulers.contains(api.scheduler()));
    configured.clone().for_each(|api| api.start_informer(informers));
    let kinds: Vec<String> = configured.map(PodGroupApi::group_kind).collect();
    all.select(|kind| kinds.iter().any(|configured| configured == kind))
}

/// Whether the API server lists the `PodGroup`s of a configured scheduler; `None` if the service reads none of this scheduler.
pub(crate) fn availability(scheduler: Scheduler, informers: &SharedInformerFactory) -> Option<Availability> {
    PodGroupApi::of(scheduler).map(|api| api.availability(informers))
}

/// The permissions on the `PodGroup`s of each scheduler.
pub(crate) fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    PodGroupApi::ALL.into_iter().map(|api| (api.scheduler(), vec![api.rule()])).collect()
}

/// The permission on the `PodGroup`s of one scheduler.
pub(crate) fn rule<A: ApiType>() -> PolicyRule {
    PolicyRule::for_resource::<PodGroup<A>>(&Verb::MANAGE, "create, patch and delete the PodGroups of gangs")
}

/// The gang as its users want it now: without the pod groups of cliques that are scaled to zero, and with smaller minimums of cliques that are
/// scaled below theirs. Otherwise a scheduler waits for pods that are not wanted, and evicts the others. A gang without any wanted pod stays.
pub(crate) fn as_wanted<'a>(gang: &'a PodGang, cliques: &ByName<SlimClique>) -> Cow<'a, PodGang> {
    let required =
        |group: &GangPodGroup| group.required_replicas(cliques.get(&group.name).map(|clique| clique.replicas()));
    let groups = &gang.spec.podgroups;
    let is_wanted = |group: &GangPodGroup| required(group) > 0 || group.min_replicas <= 0;
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
    gang.spec.podgroups.iter().fold(0, |sum, group: &GangPodGroup| sum.saturating_add(group.min_replicas))
}

#[cfg(test)]
mod tests {
    use grove_api_types::scheduler::GangSupport;

    use super::*;

    #[test]
    fn every_scheduler_that_reads_pod_groups_has_an_api() {
        for (name, scheduler) in Scheduler::ALL {
            let reads_pod_groups = scheduler.gang_support() != GangSupport::None;
            assert_eq!(PodGroupApi::of(scheduler).is_some(), reads_pod_groups, "{name}");
        }
    }
}
