//! Name conflicts: an object that an owner does not control has the name of a child that the owner wants to create. Pure.
//!
//! The conflicts here are those in the caches. The executor finds the others after *already exists*. A pod takes another name
//! instead: see `clique/plan/names.rs` of pclq-controller.

use std::collections::BTreeMap;

use grove_api_types::{conditions::available, ownership::controller_of};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt, core::ApiResource};
use serde_json::Value;

use grove_runtime::{api_error::ApiError, caches::UnreadableObject};

use crate::plan::{Create, Plan, Step, Target, Waiting};

/// An existing object with the name of a desired child that its owner does not control, or that could not be decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct NameConflict {
    /// The object.
    pub target: Target,
    /// Its metadata in the cache.
    pub metadata: ObjectMeta,
    /// Why the object could not be decoded; `None` if it could.
    pub unreadable: Option<String>,
}

impl NameConflict {
    /// The conflict with `object`.
    pub fn with<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self { target: Target::of(object), metadata: object.meta().clone(), unreadable: None }
    }

    /// The conflict with an object of kind `K` that could not be decoded.
    pub fn with_unreadable<K: Resource<DynamicType = ()>>(object: &UnreadableObject) -> Self {
        let UnreadableObject { metadata, reason } = object;
        let target = Target {
            resource: ApiResource::erase::<K>(&()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
        };
        Self { target, metadata: metadata.clone(), unreadable: Some(reason.clone()) }
    }

    /// Whether the object is being deleted, which frees the name.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the object has the kind and the name of `wanted`.
    pub fn is_about(&self, wanted: &Target) -> bool {
        self.target.name == wanted.name
            && self.target.resource.kind == wanted.resource.kind
            && self.target.resource.group == wanted.resource.group
    }

    /// Whether an owner of children with `labels` may adopt the object: it could be decoded, is not terminating, has no
    /// controller, and has all the labels.
    pub fn is_adoptable(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = self.metadata.labels.as_ref();
        let has = |(key, value): (&String, &String)| own.and_then(|own| own.get(key)) == Some(value);
        self.unreadable.is_none()
            && !self.is_terminating()
            && controller_of(&self.metadata).is_none()
            && labels.iter().all(has)
    }
}

/// All name conflicts of one owner.
#[derive(Clone, Debug)]
pub struct NameConflicts<'a, Owner> {
    /// The owner of the desired children.
    pub owner: &'a Owner,
    /// The objects that have names of desired children.
    pub conflicts: &'a [NameConflict],
    /// The labels of the owner's children. An orphan that has them all is adopted.
    pub labels: &'a BTreeMap<String, String>,
}

impl<Owner: Resource<DynamicType = ()>> NameConflicts<'_, Owner> {
    /// The plan without creates under these names, and without patches of objects that could not be decoded. An orphan of the
    /// owner is adopted instead. For any other object the plan waits, and creates nothing in later stages of the same failure
    /// domain.
    pub fn resolve(&self, plan: Plan) -> Plan {
        if self.conflicts.is_empty() {
            return plan;
        }
        let mut waiting = vec![];
        let resolved = plan.filter_map_steps(|step| {
            let conflict = self.conflicts.iter().find(|conflict| conflict.is_about(step.target()));
            match (&step, conflict) {
                (Step::Create(create), Some(conflict)) if conflict.is_adoptable(self.labels) => {
                    Some(self.adopt(conflict, create))
                }
                (Step::Create(_), Some(conflict)) => {
                    waiting.push(self.waiting(conflict));
                    None
                }
                (Step::Patch(_), Some(conflict)) if conflict.unreadable.is_some() => {
                    waiting.push(self.waiting(conflict));
                    None
                }
                _ => Some(step),
            }
        });
        resolved.waiting(waiting)
    }

    /// The conflicts that only a user can resolve, each with its reason and a sentence that names the remedy.
    pub fn unresolved(&self) -> impl Iterator<Item = (&Target, Waiting)> {
        let foreign = self.conflicts.iter().filter(|conflict| !conflict.is_adoptable(self.labels));
        let waiting = foreign.map(|conflict| (&conflict.target, self.waiting(conflict)));
        waiting.filter(|(_, waiting)| waiting.reason != available::NAME_TERMINATING)
    }

    fn waiting(&self, NameConflict { target, metadata, unreadable }: &NameConflict) -> Waiting {
        let (kind, name) = (Owner::kind(&()), self.owner.name_any());
        if let Some(reason) = unreadable.as_ref().filter(|_| metadata.deletion_timestamp.is_none()) {
            let message = format!("{target} exists and could not be decoded: {reason}; correct or delete it");
            return Waiting::new(available::UNREADABLE_OBJECT, message);
        }
        // Grove or Kubernetes' garbage collector deletes the children of an earlier owner of the same name.
        let has_deleted_owner =
            controller_of(metadata).is_some_and(|controller| controller.kind == kind && controller.name == name);
        if metadata.deletion_timestamp.is_some() || has_deleted_owner {
            return Waiting::new(
                available::NAME_TERMINATING,
                format!("{target} is being deleted; its successor is created then"),
            );
        }
        let message =
            format!("{target} exists and {kind} {name} does not control it; rename or delete it to free the name");
        Waiting::new(ApiError::NAME_CONFLICT, message)
    }

    fn adopt(&self, conflict: &NameConflict, create: &Create) -> Step {
        let references = create.object.value().pointer("/metadata/ownerReferences").cloned().unwrap_or(Value::Null);
        // The builder of the child serialised them from this type, so they can be read again.
        let references: Vec<OwnerReference> = serde_json::from_value(references).unwrap_or_default();
        Step::adopt(self.owner, conflict.target.clone(), references)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::plan::Stage;
    use grove_test_support::mock_api_server::config_map;

    fn wanted(name: &str) -> Step {
        let object: ConfigMap = serde_json::from_value(config_map(name, 1, "u")).unwrap();
        Step::create(&object)
    }

    fn conflict(name: &str, more: &Value) -> NameConflict {
        let mut object = json!({ "metadata": { "name": name, "namespace": "ns", "uid": "theirs" } });
        json_patch::merge(&mut object["metadata"], more);
        NameConflict::with(&serde_json::from_value::<ConfigMap>(object).unwrap())
    }

    fn ours() -> Value {
        json!({ "labels": { "part-of": "o", "more": "x" } })
    }

    /// Two failure domains, each with a service and then a worker. The number before the hyphen is the domain.
    #[track_caller]
    fn check(conflicts: &[NameConflict], expected: &Expect) {
        let owner: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "o", "uid": "u" } })).unwrap();
        let parts = [("0-service", 0), ("0-worker", 0), ("1-service", 1), ("1-worker", 1)];
        let plan = Plan::new()
            .stage(Stage::new("services", ["0-service", "1-service"].map(wanted)))
            .stage(Stage::new("workers", ["0-worker", "1-worker"].map(wanted)))
            .with_failure_domains(parts.map(|(name, part)| (name.to_owned(), part)).into());
        let labels = BTreeMap::from([("part-of".to_owned(), "o".to_owned())]);
        let conflicts = NameConflicts { owner: &owner, conflicts, labels: &labels };
        expected.assert_eq(&conflicts.resolve(plan).to_string());
    }

    #[test]
    fn a_child_with_a_free_name_is_created() {
        check(
            &[conflict("other", &json!({}))],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            workers: create ConfigMap 1-worker
        "]],
        );
    }

    #[test]
    fn a_foreign_object_blocks_its_own_failure_domain_only() {
        check(
            &[conflict("0-service", &json!({}))],
            &expect![[r"
            services: create ConfigMap 1-service
            workers: create ConfigMap 1-worker
            wait: NameConflict ConfigMap 0-service exists and ConfigMap o does not control it; rename or delete it to free the name
        "]],
        );
        check(
            &[conflict("1-worker", &json!({}))],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            wait: NameConflict ConfigMap 1-worker exists and ConfigMap o does not control it; rename or delete it to free the name
        "]],
        );
    }

    #[test]
    fn an_orphan_with_the_labels_of_the_owner_is_adopted_and_blocks_nothing() {
        check(
            &[conflict("0-service", &ours())],
            &expect![[r"
            services: adopt ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            workers: create ConfigMap 1-worker
        "]],
        );
    }

    #[test]
    fn a_terminating_object_and_one_with_a_controller_are_not_adopted() {
        let terminating = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let controlled = json!({ "ownerReferences": config_map("x", 1, "another")["metadata"]["ownerReferences"] });
        let with = |more: &Value| {
            let mut all = ours();
            json_patch::merge(&mut all, more);
            all
        };
        check(
            &[conflict("0-worker", &with(&terminating)), conflict("1-worker", &with(&controlled))],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            wait: NameTerminating ConfigMap 0-worker is being deleted; its successor is created then
            wait: NameConflict ConfigMap 1-worker exists and ConfigMap o does not control it; rename or delete it to free the name
        "]],
        );
    }

    #[test]
    fn a_child_of_a_deleted_owner_of_the_same_name_is_waited_for() {
        let mut child = json!({ "ownerReferences": config_map("x", 1, "deleted")["metadata"]["ownerReferences"] });
        child["ownerReferences"][0]["kind"] = json!("ConfigMap");
        check(
            &[conflict("0-worker", &child)],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 1-worker
            wait: NameTerminating ConfigMap 0-worker is being deleted; its successor is created then
        "]],
        );
    }

    fn unreadable(name: &str, more: &Value) -> NameConflict {
        let NameConflict { metadata, .. } = conflict(name, more);
        let object = UnreadableObject { metadata, reason: "missing field `data`".to_owned() };
        NameConflict::with_unreadable::<ConfigMap>(&object)
    }

    #[test]
    fn an_unreadable_object_blocks_its_own_failure_domain_even_if_the_owner_controls_it() {
        let mut controlled = json!({ "ownerReferences": config_map("x", 1, "u")["metadata"]["ownerReferences"] });
        controlled["ownerReferences"][0]["kind"] = json!("ConfigMap");
        check(
            &[unreadable("0-service", &controlled), unreadable("1-worker", &ours())],
            &expect![[r"
            services: create ConfigMap 1-service
            wait: UnreadableObject ConfigMap 0-service exists and could not be decoded: missing field `data`; correct or delete it
            wait: UnreadableObject ConfigMap 1-worker exists and could not be decoded: missing field `data`; correct or delete it
        "]],
        );
    }

    #[test]
    fn an_unreadable_object_is_not_patched_and_may_be_deleted() {
        let owner: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "o", "uid": "u" } })).unwrap();
        let live = |name: &str| -> ConfigMap { serde_json::from_value(config_map(name, 1, "u")).unwrap() };
        let patch = |name: &str| Step::merge_patch(&live(name), json!({ "data": {} }));
        let plan = Plan::new().stage(Stage::new("workers", [patch("a"), patch("b"), Step::delete(&live("a"))]));
        let (conflicts, labels) = ([unreadable("a", &json!({}))], BTreeMap::new());
        let conflicts = NameConflicts { owner: &owner, conflicts: &conflicts, labels: &labels };
        expect![[r#"
            workers: patch ConfigMap b {"data":{}}
            workers: delete ConfigMap a
            wait: UnreadableObject ConfigMap a exists and could not be decoded: missing field `data`; correct or delete it
        "#]]
        .assert_eq(&conflicts.resolve(plan).to_string());
        assert_eq!(conflicts.unresolved().count(), 1);
    }

    #[test]
    fn an_object_of_another_kind_is_no_conflict() {
        let mut other = conflict("0-service", &json!({}));
        other.target.resource.kind = "Secret".into();
        check(
            &[other],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            workers: create ConfigMap 1-worker
        "]],
        );
    }
}
