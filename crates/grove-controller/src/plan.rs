//! The decision of a reconcile as plain data: stages of steps, the reasons to wait, and when to requeue.
//!
//! The steps of a stage are independent of each other. A stage begins when the previous stage has succeeded, or at least in
//! the failure domain of the step.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
    sync::Arc,
    time::Duration,
};

use grove_api_types::conditions::available;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, core::ApiResource};
use serde::Serialize;
use serde_json::json;

mod deletes;
mod event_notes;
mod failure_domains;
mod finalizers;
mod manifest;
mod object_events;
mod patches;
mod slow_start;

pub use self::{
    event_notes::{EventNotes, StageEvent},
    manifest::{Manifest, ManifestTemplate},
    object_events::{NormalEvent, WarningEvent},
    patches::{MergePatch, Patch, PatchBody},
    slow_start::SlowStart,
};

/// All writes of one reconcile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Executed one after the other. A failed step ends the plan, or blocks later creates of its failure domain. If the stages are
    /// independent, a rejected step ends nothing.
    pub stages: Vec<Stage>,
    /// The reasons for not doing more now. Conditions and logs show them.
    pub waiting: Vec<Waiting>,
    /// Events of type `Warning` about the object, besides the events of the stages.
    pub warnings: Vec<WarningEvent>,
    /// Events of type `Normal` about the object, besides the events of the stages.
    pub normal_events: Vec<NormalEvent>,
    /// The time to the next known deadline; `None` if only a watch event can change anything.
    pub requeue_after: Option<Duration>,
    /// The time to the next plan if this one has as many steps as a plan may have. After a failure only the retry follows, so that
    /// its backoff applies.
    pub continue_after: Option<Duration>,
    /// The failure domain of each child, by name. Without entries the whole plan is one failure domain.
    pub failure_domains: BTreeMap<String, i32>,
    /// Whether no stage depends on an earlier one. Then only a failure of the API server itself ends the plan.
    pub has_independent_stages: bool,
}

impl Plan {
    /// An empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a stage, unless it has no steps.
    #[must_use]
    pub fn stage(mut self, stage: Stage) -> Self {
        if !stage.steps.is_empty() {
            self.stages.push(stage);
        }
        self
    }

    /// Adds reasons for not doing more.
    #[must_use]
    pub fn waiting(mut self, waiting: impl IntoIterator<Item = impl Into<Waiting>>) -> Self {
        self.waiting.extend(waiting.into_iter().map(Into::into));
        self
    }

    /// Adds warnings about the object.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl IntoIterator<Item = WarningEvent>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Adds events of type `Normal` about the object.
    #[must_use]
    pub fn with_normal_events(mut self, events: impl IntoIterator<Item = NormalEvent>) -> Self {
        self.normal_events.extend(events);
        self
    }

    /// Requeues the object after `delay`. The earliest of several delays applies.
    #[must_use]
    pub fn requeue_after(mut self, delay: Duration) -> Self {
        self.requeue_after = Some(self.requeue_after.map_or(delay, |earlier| earlier.min(delay)));
        self
    }

    /// Requeues the object after `delay` if all steps succeed, because the plan has not all steps that are necessary.
    #[must_use]
    pub fn continue_after(self, delay: Option<Duration>) -> Self {
        Self { continue_after: delay, ..self }
    }

    /// A rejected step neither ends this plan nor blocks another step.
    #[must_use]
    pub fn with_independent_stages(self) -> Self {
        Self { has_independent_stages: true, ..self }
    }

    /// Whether the plan has no steps.
    pub fn is_empty(&self) -> bool {
        self.stages.iter().all(|stage| stage.steps.is_empty())
    }

    /// All steps in the order of their stages.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|stage| &stage.steps)
    }

    /// The objects that are created from a template, each with its index.
    pub fn indexed_creates(&self) -> impl Iterator<Item = (i32, &Target)> {
        self.steps().filter_map(|step| match step {
            Step::Create(Create { target, object }) => Some((object.index()?, target)),
            Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
        })
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let has_text = !(self.waiting.is_empty() && self.warnings.is_empty() && self.normal_events.is_empty());
        let is_requeued = self.requeue_after.or(self.continue_after).is_some();
        if self.is_empty() && !has_text && !is_requeued {
            return writeln!(f, "nothing to do");
        }
        for stage in &self.stages {
            stage.steps.iter().try_for_each(|step| writeln!(f, "{}: {step}", stage.name))?;
        }
        self.waiting.iter().try_for_each(|waiting| writeln!(f, "wait: {waiting}"))?;
        self.warnings.iter().try_for_each(|WarningEvent { reason, note }| writeln!(f, "warn: {reason} {note}"))?;
        self.normal_events.iter().try_for_each(|NormalEvent { reason, note }| writeln!(f, "event: {reason} {note}"))?;
        self.requeue_after.iter().try_for_each(|delay| writeln!(f, "requeue: after {delay:?}"))?;
        self.continue_after.iter().try_for_each(|delay| writeln!(f, "continue: after {delay:?}"))
    }
}

/// Steps that are executed concurrently.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The name of the stage in logs and events.
    pub name: &'static str,
    /// Independent of each other.
    pub steps: Vec<Step>,
    /// The events about the stage: one about all steps, or one per kind.
    pub events: Vec<StageEvent>,
    /// How the executor begins the creates; `None` sends all steps with full concurrency. In both cases, a quota that rejects a create
    /// ends the creates of the stage, which are of one kind. Other steps follow.
    pub slow_start: Option<SlowStart>,
}

impl Stage {
    /// A stage without events.
    pub fn new(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Self {
        Self { name, steps: steps.into_iter().collect(), events: vec![], slow_start: None }
    }

    /// Sends the steps in growing batches. Creates come first.
    #[must_use]
    pub fn with_slow_start(self, slow_start: Option<SlowStart>) -> Self {
        Self { slow_start, ..self }
    }

    /// Publishes one event about the stage: reason `success` with the note `<verb> <Kind>s: a, b`, or a warning with
    /// reason `failure` and the message of the server.
    #[must_use]
    pub fn with_event(mut self, success: &'static str, failure: &'static str, verb: &'static str) -> Self {
        self.events.push(StageEvent { kind: None, success: Some(success), failure, verb, notes: EventNotes::ByVerb });
        self
    }

    /// The same, with notes in another form.
    #[must_use]
    pub fn with_event_notes(mut self, notes: EventNotes) -> Self {
        self.events.iter_mut().for_each(|event| event.notes = notes);
        self
    }

    /// Publishes an event only if a step fails: a warning with this reason and the message of the server.
    #[must_use]
    pub fn with_failure_event(mut self, failure: &'static str) -> Self {
        self.events.push(StageEvent { kind: None, success: None, failure, verb: "", notes: EventNotes::ByVerb });
        self
    }

    /// The same for the steps of one kind, so that a stage with several kinds publishes one event per kind.
    #[must_use]
    pub fn with_event_for_kind<K: Resource<DynamicType = ()>>(
        mut self,
        success: &'static str,
        failure: &'static str,
        verb: &'static str,
    ) -> Self {
        let (kind, notes) = (Some(K::kind(&())), EventNotes::ByVerb);
        self.events.push(StageEvent { kind, success: Some(success), failure, verb, notes });
        self
    }
}

/// One write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// POST, exactly once.
    Create(Create),
    /// The narrowest change to a live object.
    Patch(Patch),
    /// Deletes the object with the observed UID.
    Delete(Delete),
    /// Makes the owner the controller of an orphan.
    Adopt(Adopt),
}

/// An object to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// Kind, namespace and name of the object.
    pub target: Target,
    /// The whole object, with `apiVersion` and `kind`.
    pub object: Manifest,
}

/// A delete with the UID of the target as its precondition.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The deleted object.
    pub target: Target,
    /// The observed resource version, if it is a precondition too.
    pub resource_version: Option<String>,
    /// Whether the deletion of the object ends only after that of its dependents.
    pub is_foreground: bool,
}

/// An adoption. The executor checks by live GETs that the object has no controller and that the owner is not terminating.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopt {
    /// The adopted object.
    pub target: Target,
    /// The new controller.
    pub owner: Target,
    /// The owner references to add to those that the object has.
    pub reference: Vec<OwnerReference>,
}

/// The object of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its kind.
    pub resource: ApiResource,
    /// Its namespace; absent for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The observed UID; `None` for an object that does not exist yet.
    pub uid: Option<String>,
}

impl Target {
    /// The target for `object`.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self {
            resource: ApiResource::erase::<K>(&()),
            namespace: object.namespace(),
            name: object.name_any(),
            uid: object.uid(),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource.kind, self.name)
    }
}

impl Step {
    /// Creates `object`.
    pub fn create<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        Self::Create(Create { target: Target::of(object), object: Manifest::of(object) })
    }

    /// Creates the object with this index from `template`, which renders its manifest when the request is sent.
    pub fn create_from_template(target: Target, template: Arc<dyn ManifestTemplate>, index: i32) -> Self {
        let object = Manifest::from_template(template, &target.name, index);
        Self::Create(Create { target, object })
    }

    /// Makes `owner` the controller of an object by adding `reference` to its owner references.
    pub fn adopt<O: Resource<DynamicType = ()>>(owner: &O, target: Target, reference: Vec<OwnerReference>) -> Self {
        Self::Adopt(Adopt { target, owner: Target::of(owner), reference })
    }

    /// The object of the step.
    pub fn target(&self) -> &Target {
        match self {
            Self::Create(Create { target, object: _ })
            | Self::Patch(Patch { target, change: _ })
            | Self::Delete(Delete { target, resource_version: _, is_foreground: _ })
            | Self::Adopt(Adopt { target, owner: _, reference: _ }) => target,
        }
    }

    /// The number of bytes of the manifest or of the change.
    pub fn stored_bytes(&self) -> usize {
        match self {
            Self::Create(Create { target: _, object }) => object.stored_bytes(),
            Self::Patch(Patch { target: _, change: PatchBody::Merge(change) }) => change.text().len(),
            Self::Patch(Patch { target: _, change: PatchBody::Json(change) }) => json!(change).to_string().len(),
            Self::Delete(_) | Self::Adopt(_) => 0,
        }
    }

    /// The verb in RBAC and metrics: `create`, `patch` or `delete`.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Patch(_) | Self::Adopt(_) => "patch",
            Self::Delete(_) => "delete",
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Self::Adopt(Adopt { target, owner: _, reference: _ }) = self {
            return write!(f, "adopt {target}");
        }
        write!(f, "{} {}", self.verb(), self.target())?;
        match self {
            Self::Patch(Patch { target: _, change: PatchBody::Merge(change) }) => {
                write!(f, " {}", change.text())
            }
            Self::Patch(Patch { target: _, change: PatchBody::Json(change) }) => {
                write!(f, " {}", json!(change))
            }
            Self::Delete(delete) => delete.fmt_options(f),
            Self::Create(_) | Self::Adopt(_) => Ok(()),
        }
    }
}

/// A reason for not doing more now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The reason in conditions, one word in CamelCase.
    pub reason: &'static str,
    /// The message for users.
    pub message: String,
}

impl Waiting {
    /// A reason with its message.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The reason while the API server rejects all creates in the namespace.
    pub fn for_terminating_namespace() -> Self {
        Self::new(available::NAMESPACE_TERMINATING, "nothing is created, because the namespace is terminating")
    }
}

impl Display for Waiting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.reason, self.message)
    }
}

#[cfg(test)]
mod tests;
