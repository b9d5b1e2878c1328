//! What a clique observes of its parents: plain data and pure queries.

use std::cell::LazyCell;

use grove_api_types::configuration::StartupToken;
use grove_api_types::startup::{PARENT_FLAG, Parent};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::Cache;

/// How each argument of the init container begins.
fn prefix() -> String {
    format!("--{PARENT_FLAG}=")
}

/// How pods wait for other cliques: the settings of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InitContainer {
    /// The image; `None` if it is unknown.
    pub(crate) image: Option<String>,
    /// The token that the init container uses.
    pub(crate) token: StartupToken,
}

/// The parents of a clique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedStartup {
    /// The cliques that its pods start after, in the order of `startsAfter`.
    pub(crate) parents: Vec<ObservedParent>,
    /// The settings of the process.
    pub(crate) init_container: InitContainer,
}

/// A clique that other pods start after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedParent {
    /// The name of its `PodClique`.
    pub(crate) name: String,
    /// The number of its pods that must be ready, and of those that are; `None` if it does not exist.
    pub(crate) pods: Option<(i32, i32)>,
}

/// The parents of the clique, from the cache. Their number can be large, so they are read only for a clique that has some.
pub(crate) fn observe(
    cliques: &Cache<PodClique>,
    init_container: &InitContainer,
    clique: &PodClique,
) -> ObservedStartup {
    let namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
    let parent = |name: &String| {
        let pods = cliques.get(namespace, name).map(|parent| {
            let ready = parent.status.as_ref().map_or(0, |status| status.ready_replicas);
            (parent.spec.required_replicas(), ready)
        });
        ObservedParent { name: name.clone(), pods }
    };
    ObservedStartup {
        parents: clique.spec.starts_after.iter().map(parent).collect(),
        init_container: init_container.clone(),
    }
}

impl ObservedStartup {
    /// The parents that need ready pods. A parent that its user scaled to zero needs none.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Parent> {
        let awaited = |parent: &ObservedParent| {
            let (min_ready, _) = parent.pods.filter(|(required, _)| *required > 0)?;
            Some(Parent { clique: parent.name.clone(), min_ready })
        };
        self.parents.iter().filter_map(awaited)
    }

    /// The arguments of the init container.
    pub(super) fn arguments(&self) -> Vec<String> {
        self.awaited().map(|parent| format!("{}{parent}", prefix())).collect()
    }

    /// Whether a pod waits for other numbers of ready pods than a new pod would, because a user scaled a parent. It could wait forever.
    /// Arguments are immutable.
    pub(crate) fn outdated_pods(&self) -> impl Fn(&SlimPod) -> bool {
        let (prefix, wanted) = (prefix(), LazyCell::new(|| self.arguments()));
        move |pod| {
            let waiting = pod.spec.init_containers.first().filter(|_| !pod.is_initialized());
            waiting.map(|container| &container.args).is_some_and(|args| {
                // A user may have an init container of the same name.
                let is_ours = args.iter().all(|argument| argument.starts_with(&prefix)) && !args.is_empty();
                is_ours && *args != *wanted
            })
        }
    }

    /// The parents with fewer ready pods than they need: their names, and both numbers.
    pub(crate) fn not_ready(&self) -> impl Iterator<Item = (&str, i32, i32)> {
        let counts = self.parents.iter().filter_map(|parent| parent.pods.map(|pods| (parent.name.as_str(), pods)));
        counts
            .filter(|(_, (required, ready))| ready < required)
            .map(|(name, (required, ready))| (name, required, ready))
    }
}
