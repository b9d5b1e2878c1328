//! What a reconciler decided to do, as plain data: stages of steps, what it waits for, when to look again.
//!
//! Steps of one stage are independent of each other; a stage begins when the one before it succeeded as a whole, or at least
//! in the part of the object that a step is for.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, core::ApiResource};
use serde::Serialize;
use serde_json::{Value, json};

mod failure_domains;

/// Everything one reconciliation wants done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Carried out one after the other; a failed stage ends the plan, or what it has of the same part.
    pub stages: Vec<Stage>,
    /// Why nothing more is done now. Feeds conditions and logs.
    pub waiting: Vec<Waiting>,
    /// The next known deadline; absent when only an event can change anything.
    pub requeue_after: Option<Duration>,
    /// Parts of the object that do not need one another, by the names of children. Without parts all is one.
    pub failure_domains: BTreeMap<String, i32>,
}

impl Plan {
    /// A plan to do nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a stage; one without steps is dropped.
    #[must_use]
    pub fn stage(mut self, stage: Stage) -> Self {
        if !stage.steps.is_empty() {
            self.stages.push(stage);
        }
        self
    }

    /// Adds reasons for doing no more than this.
    #[must_use]
    pub fn waiting(mut self, waiting: impl IntoIterator<Item = impl Into<Waiting>>) -> Self {
        self.waiting.extend(waiting.into_iter().map(Into::into));
        self
    }

    /// Asks for another look after `delay`; the earliest of several wins.
    #[must_use]
    pub fn requeue_after(mut self, delay: Duration) -> Self {
        self.requeue_after = Some(self.requeue_after.map_or(delay, |earlier| earlier.min(delay)));
        self
    }

    /// Whether the plan leaves the cluster as it is.
    pub fn is_empty(&self) -> bool {
        self.stages.iter().all(|stage| stage.steps.is_empty())
    }

    /// All steps in the order of their stages.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|stage| &stage.steps)
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() && self.waiting.is_empty() && self.requeue_after.is_none() {
            return writeln!(f, "nothing to do");
        }
        for stage in &self.stages {
            stage.steps.iter().try_for_each(|step| writeln!(f, "{}: {step}", stage.name))?;
        }
        self.waiting.iter().try_for_each(|waiting| writeln!(f, "wait: {waiting}"))?;
        self.requeue_after.iter().try_for_each(|delay| writeln!(f, "requeue: after {delay:?}"))
    }
}

/// Steps that may be taken at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Names the stage in logs, metrics and texts.
    pub name: &'static str,
    /// Independent of each other.
    pub steps: Vec<Step>,
    /// The events to publish about the stage: one about all of it, or one per kind.
    pub events: Vec<StageEvent>,
}

impl Stage {
    /// A stage that is carried out silently.
    pub fn new(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Self {
        Self { name, steps: steps.into_iter().collect(), events: vec![] }
    }

    /// Publishes one event about the stage: reason `success` with the note `<verb> <Kind>s: a, b`, or a warning with
    /// reason `failure` and the server's words.
    #[must_use]
    pub fn with_event(mut self, success: &'static str, failure: &'static str, verb: &'static str) -> Self {
        self.events.push(StageEvent { kind: None, success: Some(success), failure, verb });
        self
    }

    /// Publishes an event about the stage only if something was refused: a warning with this reason and the server's words.
    #[must_use]
    pub fn with_failure_event(mut self, failure: &'static str) -> Self {
        self.events.push(StageEvent { kind: None, success: None, failure, verb: "" });
        self
    }

    /// What was done and what was refused about the steps of one kind, so that a stage of several kinds has one event for each.
    #[must_use]
    pub fn with_event_for_kind(
        mut self,
        kind: &'static str,
        success: &'static str,
        failure: &'static str,
        verb: &'static str,
    ) -> Self {
        self.events.push(StageEvent { kind: Some(kind), success: Some(success), failure, verb });
        self
    }
}

/// How a stage is told to the user who looks at the object's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageEvent {
    /// The kind of the children it is about; absent for all of them.
    pub kind: Option<&'static str>,
    /// Reason of the event when the stage succeeded; absent if that is not told.
    pub success: Option<&'static str>,
    /// Reason of the warning when a step was refused.
    pub failure: &'static str,
    /// First word of the note, in the past tense: `Created`.
    pub verb: &'static str,
}

/// One write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// POST, exactly once.
    Create(Create),
    /// The narrowest change to a live object.
    Patch(Patch),
    /// Removes the very object that was seen.
    Delete(Delete),
    /// Makes an object that nobody controls one's own.
    Adopt(Adopt),
}

/// An object to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// Where it will live.
    pub target: Target,
    /// The whole object, with `apiVersion` and `kind`.
    pub object: Manifest,
}

/// An object as it is sent. Text, because a plan may create thousands of objects, and a tree is ten times as large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest(Box<str>);

impl Manifest {
    #[expect(clippy::expect_used, reason = "an API object consists of maps with string keys, which always serialise")]
    fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        let text = serde_json::to_string(object).expect("an API object serialises");
        // Slim and hand-written types do not always carry their own type.
        if text.starts_with(r#"{"apiVersion":"#) {
            return Self(text.into());
        }
        let (version, kind) = (json!(K::api_version(&())), json!(K::kind(&())));
        let typed = text.replacen('{', &format!(r#"{{"apiVersion":{version},"kind":{kind},"#), 1);
        Self(typed.into())
    }

    /// The object as JSON.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The object for looking into it.
    pub fn value(&self) -> Value {
        // What was serialised can be read.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// A change to a live object.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// What is changed.
    pub target: Target,
    /// The change.
    pub change: PatchBody,
}

/// The two ways to say a change.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchBody {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902, usually beginning with a `test`.
    Json(json_patch::Patch),
}

/// An object to be deleted, if it is still the one with the target's uid.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// What is deleted.
    pub target: Target,
}

/// An object to be given a controlling owner, if the server itself says that nobody controls it and that the owner stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopt {
    /// What is adopted.
    pub target: Target,
    /// Who adopts it.
    pub owner: Target,
    /// How the object refers to its owner from then on.
    pub reference: Vec<OwnerReference>,
}

/// The object that a step is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its kind.
    pub resource: ApiResource,
    /// Its namespace; absent for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The incarnation that was seen; absent for what does not exist yet.
    pub uid: Option<String>,
}

impl Target {
    /// The target that `object` is.
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

    /// Merges `change` into the object of that name, whatever its version.
    pub fn merge_patch<K: Resource<DynamicType = ()>>(object: &K, change: Value) -> Self {
        Self::Patch(Patch { target: Target::of(object), change: PatchBody::Merge(change) })
    }

    /// Merges `change` into the object only if it is still the version that was seen.
    pub fn merge_patch_with_optimistic_lock<K: Resource<DynamicType = ()>>(object: &K, mut change: Value) -> Self {
        json_patch::merge(&mut change, &json!({ "metadata": { "resourceVersion": object.resource_version() } }));
        Self::merge_patch(object, change)
    }

    /// Applies a JSON patch; its `test` operations are its preconditions.
    pub fn json_patch<K: Resource<DynamicType = ()>>(object: &K, change: json_patch::Patch) -> Self {
        Self::Patch(Patch { target: Target::of(object), change: PatchBody::Json(change) })
    }

    /// Deletes the very object that was seen; what it owns follows in the background.
    pub fn delete<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self::Delete(Delete { target: Target::of(object) })
    }

    /// Makes `owner` the controller of an object, by `reference`, which is added to those that the object has.
    pub fn adopt<O: Resource<DynamicType = ()>>(owner: &O, target: Target, reference: Vec<OwnerReference>) -> Self {
        Self::Adopt(Adopt { target, owner: Target::of(owner), reference })
    }

    /// What the step is about.
    pub fn target(&self) -> &Target {
        match self {
            Self::Create(Create { target, object: _ })
            | Self::Patch(Patch { target, change: _ })
            | Self::Delete(Delete { target })
            | Self::Adopt(Adopt { target, owner: _, reference: _ }) => target,
        }
    }

    /// `create`, `patch` or `delete`, as RBAC and metrics call it.
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
            Self::Patch(Patch { target: _, change: PatchBody::Merge(change) }) => write!(f, " {change}"),
            Self::Patch(Patch { target: _, change: PatchBody::Json(change) }) => write!(f, " {}", json!(change)),
            Self::Create(_) | Self::Delete(_) | Self::Adopt(_) => Ok(()),
        }
    }
}

/// Why nothing more is done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// A word for conditions.
    pub reason: &'static str,
    /// A sentence for users.
    pub message: String,
}

impl Waiting {
    /// A reason with its sentence.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl Display for Waiting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.reason, self.message)
    }
}

#[cfg(test)]
mod tests;
