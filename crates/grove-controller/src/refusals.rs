//! What the API server refused to create for an object, and when it is asked again: with growing delays, and sooner when
//! something leaves the namespace. Not whenever anything about the object changes, or a quota would be asked in a loop.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use tokio::time::Instant;

use grove_runtime::{api_error::ApiError, backoff::Backoff, caches::Delta};

use crate::{
    executor::Done,
    plan::{Plan, Target},
};

/// A child that was refused, with the server's words.
pub type Refusal = (Target, ApiError);

/// What is not asked for now.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The children that were refused.
    pub children: Vec<Refusal>,
    /// When they are asked for again.
    pub wait: Option<Duration>,
}

impl Standing {
    /// The plan without them, and without what comes later in the parts that lack them.
    pub fn left_out_of(&self, plan: Plan) -> Plan {
        let plan = plan.without(self.children.iter().map(|(target, _)| target));
        match self.wait {
            Some(wait) => plan.revisit_in(wait),
            None => plan,
        }
    }
}

/// What was refused to the objects of one kind. All clones are one.
#[derive(Debug)]
pub struct Refusals<K> {
    by_uid: Arc<Mutex<BTreeMap<String, Refused>>>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Refusals<K> {
    fn clone(&self) -> Self {
        Self { by_uid: Arc::clone(&self.by_uid), kind: PhantomData }
    }
}

impl<K> Default for Refusals<K> {
    fn default() -> Self {
        Self { by_uid: Arc::default(), kind: PhantomData }
    }
}

#[derive(Debug)]
struct Refused {
    namespace: String,
    name: String,
    children: Vec<Refusal>,
    backoff: Backoff,
    due: Instant,
}

impl<K: Resource<DynamicType = ()>> Refusals<K> {
    /// What is not to be asked for now.
    pub fn standing(&self, object: &K) -> Standing {
        let (all, now) = (self.lock(), Instant::now());
        let refused = all.get(&object.uid().unwrap_or_default()).filter(|refused| refused.due > now);
        refused.map_or_else(Standing::default, |refused| Standing {
            children: refused.children.clone(),
            wait: Some(refused.due.duration_since(now)),
        })
    }

    /// Takes note of what came of a plan that left out `standing`.
    pub fn note(&self, object: &K, standing: &Standing, done: &Done) {
        let creates =
            done.refused().filter(|(outcome, failure)| outcome.verb == "create" && failure.is_object_specific());
        let fresh: Vec<_> = creates.map(|(outcome, failure)| (outcome.target.clone(), failure.clone())).collect();
        let (uid, is_whole) = (object.uid().unwrap_or_default(), standing.children.is_empty());
        let children: Vec<_> = standing.children.iter().cloned().chain(fresh).collect();
        let mut all = self.lock();
        if children.is_empty() {
            // Who did not get to ask, because the server was away, learned nothing.
            if done.succeeded() {
                all.remove(&uid);
            }
            return;
        }
        let (namespace, name, now) = (object.namespace().unwrap_or_default(), object.name_any(), Instant::now());
        let refused = all.entry(uid).or_insert_with(|| {
            let backoff = Backoff::for_objects();
            Refused { namespace, name, children: vec![], backoff, due: now }
        });
        refused.children = children;
        if is_whole {
            refused.due = now + refused.backoff.failed();
        }
    }

    /// Drops what is known of an object that is gone.
    pub fn forget(&self, object: &K) {
        self.lock().remove(&object.uid().unwrap_or_default());
    }

    /// The objects for whose children there may be room now: those of the namespace that something has left. They may ask
    /// again.
    pub fn relieved<C: Resource>(&self, delta: &Delta<C>) -> Vec<ObjectRef<K>> {
        let gone = delta.old.as_ref().filter(|_| delta.is_delete());
        let Some(namespace) = gone.and_then(|child| child.namespace()) else { return vec![] };
        let mut all = self.lock();
        let relieved = all.values_mut().filter(|refused| refused.namespace == namespace);
        let objects = relieved.map(|refused| {
            refused.due = Instant::now();
            ObjectRef::new(&refused.name).within(&refused.namespace)
        });
        objects.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Refused>> {
        // No code panics while it holds the lock.
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::executor::Outcome;
    use grove_test_support::mock_api_server::config_map;

    fn object(name: &str) -> ConfigMap {
        serde_json::from_value(config_map(name, 1, "owner")).unwrap()
    }

    fn done(results: &[(&str, Option<u16>)]) -> Done {
        let outcome = |(name, code): &(&str, Option<u16>)| {
            let result = code.map_or(Ok(()), |code| Err(ApiError::new(code, "Refused", "no")));
            Outcome { stage: "s", verb: "create", target: Target::of(&object(name)), result }
        };
        Done { outcomes: results.iter().map(outcome).collect() }
    }

    fn names(refused: &Refusals<ConfigMap>) -> Vec<String> {
        refused.standing(&object("o")).children.into_iter().map(|(target, _)| target.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_is_asked_for_again_with_growing_delays() {
        let refused = Refusals::default();
        for longest in [500, 1000, 2000, 4000] {
            refused.note(&object("o"), &Standing::default(), &done(&[("a", Some(403)), ("b", None), ("c", Some(422))]));
            assert_eq!(names(&refused), ["a", "c"]);
            let wait = refused.standing(&object("o")).wait.unwrap();
            assert!(wait <= Duration::from_millis(longest) && wait >= Duration::from_millis(longest / 2), "{wait:?}");
            tokio::time::advance(wait).await;
            assert_eq!(names(&refused), Vec::<String>::new());
        }
        refused.note(&object("o"), &Standing::default(), &done(&[("a", None)]));
        assert!(refused.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_else_is_refused_meanwhile_waits_with_it() {
        let refused = Refusals::default();
        refused.note(&object("o"), &Standing::default(), &done(&[("a", Some(403))]));
        let standing = refused.standing(&object("o"));
        refused.note(&object("o"), &standing, &done(&[("b", Some(403))]));
        assert_eq!(
            (names(&refused), refused.standing(&object("o")).wait),
            (vec!["a".to_owned(), "b".to_owned()], standing.wait)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_leaves_the_namespace_may_have_made_room() {
        let refused = Refusals::default();
        refused.note(&object("o"), &Standing::default(), &done(&[("a", Some(403))]));
        let gone = |namespace: &str| {
            let gone = json!({ "metadata": { "name": "x", "namespace": namespace } });
            Delta { old: Some(Arc::new(serde_json::from_value::<ConfigMap>(gone).unwrap())), new: None }
        };
        assert_eq!(refused.relieved(&gone("other")), []);
        assert_eq!(refused.relieved(&gone("ns")), [ObjectRef::new("o").within("ns")]);
        assert_eq!(names(&refused), Vec::<String>::new());
        assert_eq!(refused.standing(&object("o")).wait, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_away_refuses_nothing() {
        let refused = Refusals::default();
        for code in [0, 401, 429, 500, 503] {
            refused.note(&object("o"), &Standing::default(), &done(&[("a", Some(code))]));
            assert_eq!(names(&refused), Vec::<String>::new(), "{code}");
        }
    }
}
