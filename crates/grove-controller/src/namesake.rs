//! An object that has the name which a child is to have, and what its owner does about it. Pure.

use grove_api_types::conditions::available;
use std::collections::BTreeMap;

use grove_api_types::ownership::controller_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde_json::Value;

use grove_runtime::{api_error::ApiError, caches::Cache};

use crate::plan::{Create, Plan, Step, Target, Waiting};

/// The reason to wait for a name whose holder is on its way out. For one that belongs to somebody else it is
/// [`ApiError::NAME_CONFLICT`].
pub const NAME_TERMINATING: &str = available::NAME_TERMINATING;

/// What is known of an object whose name somebody else wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Namesake {
    /// Which object it is.
    pub target: Target,
    /// Its metadata as last seen.
    pub metadata: ObjectMeta,
}

/// Of the objects with these names beside `owner`, those that it does not control. The cache triggers `owner` when one of
/// them changes.
pub fn namesakes<'a, K, Owner>(
    cache: &Cache<K>,
    owner: &Owner,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<Namesake>
where
    K: Resource<DynamicType = ()>,
    Owner: Resource<DynamicType = ()>,
{
    cache.namesakes(owner, names).iter().map(|object| Namesake::of(&**object)).collect()
}

impl Namesake {
    /// What is known of `object`.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self { target: Target::of(object), metadata: object.meta().clone() }
    }

    /// Whether it is on its way out, so that its name will be free without anybody's doing.
    pub fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it is of that kind and has that name.
    pub fn has_name_of(&self, wanted: &Target) -> bool {
        self.target.name == wanted.name
            && self.target.resource.kind == wanted.resource.kind
            && self.target.resource.group == wanted.resource.group
    }

    /// Whether it may be adopted by one whose children carry `labels`: it stays, nobody controls it, and it has them all.
    pub fn is_adoptable(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = self.metadata.labels.as_ref();
        let has = |(key, value): (&String, &String)| own.and_then(|own| own.get(key)) == Some(value);
        !self.is_leaving() && controller_of(&self.metadata).is_none() && labels.iter().all(has)
    }
}

/// What an owner knows of the names that it wants and others have.
#[derive(Clone, Debug)]
pub struct Claims<'a, Owner> {
    /// Who wants them.
    pub owner: &'a Owner,
    /// Who has them.
    pub taken: &'a [Namesake],
    /// The labels by which the owner knows a child that lost its owner.
    pub labels: &'a BTreeMap<String, String>,
}

impl<Owner: Resource<DynamicType = ()>> Claims<'_, Owner> {
    /// `plan` with regard to them. Nothing is created under a taken name: what may be adopted is, and for the rest the
    /// plan waits, together with what the later stages would create in the same part of the owner.
    pub fn settle(&self, plan: Plan) -> Plan {
        if self.taken.is_empty() {
            return plan;
        }
        let mut waiting = vec![];
        let settled = plan.sifted(|step| {
            let Step::Create(create) = &step else { return Some(step) };
            match self.taken.iter().find(|namesake| namesake.has_name_of(&create.target)) {
                None => Some(step),
                Some(namesake) if namesake.is_adoptable(self.labels) => Some(self.adopt(namesake, create)),
                Some(namesake) => {
                    waiting.push(self.waiting(namesake));
                    None
                }
            }
        });
        settled.waiting(waiting)
    }

    /// Those that will not go by themselves: for users to hear of.
    pub fn refused(&self) -> impl Iterator<Item = (&Target, String)> {
        let foreign = self.taken.iter().filter(|namesake| !namesake.is_adoptable(self.labels));
        foreign.map(|namesake| (&namesake.target, self.waiting(namesake))).filter_map(|(target, waiting)| {
            (waiting.reason == ApiError::NAME_CONFLICT).then_some((target, waiting.message))
        })
    }

    fn waiting(&self, Namesake { target, metadata }: &Namesake) -> Waiting {
        // Of an owner of the same name that is gone, and whose children follow it.
        let orphaned = controller_of(metadata).is_some_and(|controller| {
            controller.kind == Owner::kind(&()) && Some(&controller.name) == self.owner.meta().name.as_ref()
        });
        if metadata.deletion_timestamp.is_some() || orphaned {
            return Waiting::new(NAME_TERMINATING, format!("{target} has to be gone before its successor is made"));
        }
        let message = format!("{target} is somebody else's; rename or delete it, so that the name is free");
        Waiting::new(ApiError::NAME_CONFLICT, message)
    }

    fn adopt(&self, namesake: &Namesake, create: &Create) -> Step {
        let references = create.object.value().pointer("/metadata/ownerReferences").cloned().unwrap_or(Value::Null);
        // They were serialised from that very type.
        let references: Vec<OwnerReference> = serde_json::from_value(references).unwrap_or_default();
        Step::adopt(self.owner, namesake.target.clone(), references)
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

    fn holder(name: &str, more: &Value) -> Namesake {
        let mut object = json!({ "metadata": { "name": name, "namespace": "ns", "uid": "theirs" } });
        json_patch::merge(&mut object["metadata"], more);
        Namesake::of(&serde_json::from_value::<ConfigMap>(object).unwrap())
    }

    fn ours() -> Value {
        json!({ "labels": { "part-of": "o", "more": "x" } })
    }

    /// Two parts, each with a service and then a worker; the name before the hyphen is the part.
    #[track_caller]
    fn check(taken: &[Namesake], expected: &Expect) {
        let owner: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "o", "uid": "u" } })).unwrap();
        let parts = [("0-service", 0), ("0-worker", 0), ("1-service", 1), ("1-worker", 1)];
        let plan = Plan::new()
            .stage(Stage::new("services", ["0-service", "1-service"].map(wanted)))
            .stage(Stage::new("workers", ["0-worker", "1-worker"].map(wanted)))
            .in_parts(parts.map(|(name, part)| (name.to_owned(), part)).into());
        let labels = BTreeMap::from([("part-of".to_owned(), "o".to_owned())]);
        let claims = Claims { owner: &owner, taken, labels: &labels };
        expected.assert_eq(&claims.settle(plan).to_string());
    }

    #[test]
    fn free_names_are_created() {
        check(
            &[holder("other", &json!({}))],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            workers: create ConfigMap 1-worker
        "]],
        );
    }

    #[test]
    fn a_foreign_object_holds_up_its_part_only() {
        check(
            &[holder("0-service", &json!({}))],
            &expect![[r"
            services: create ConfigMap 1-service
            workers: create ConfigMap 1-worker
            wait: NameConflict ConfigMap 0-service is somebody else's; rename or delete it, so that the name is free
        "]],
        );
        check(
            &[holder("1-worker", &json!({}))],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            wait: NameConflict ConfigMap 1-worker is somebody else's; rename or delete it, so that the name is free
        "]],
        );
    }

    #[test]
    fn one_of_ours_that_nobody_controls_is_adopted_and_holds_nothing_up() {
        check(
            &[holder("0-service", &ours())],
            &expect![[r"
            services: adopt ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            workers: create ConfigMap 1-worker
        "]],
        );
    }

    #[test]
    fn who_leaves_or_is_controlled_is_not_adopted() {
        let leaving = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let controlled = json!({ "ownerReferences": config_map("x", 1, "another")["metadata"]["ownerReferences"] });
        let with = |more: &Value| {
            let mut all = ours();
            json_patch::merge(&mut all, more);
            all
        };
        check(
            &[holder("0-worker", &with(&leaving)), holder("1-worker", &with(&controlled))],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            wait: NameTerminating ConfigMap 0-worker has to be gone before its successor is made
            wait: NameConflict ConfigMap 1-worker is somebody else's; rename or delete it, so that the name is free
        "]],
        );
    }

    #[test]
    fn what_an_earlier_owner_of_the_same_name_left_is_not_reported_as_somebody_elses() {
        let mut left = json!({ "ownerReferences": config_map("x", 1, "gone")["metadata"]["ownerReferences"] });
        left["ownerReferences"][0]["kind"] = json!("ConfigMap");
        check(
            &[holder("0-worker", &left)],
            &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 1-worker
            wait: NameTerminating ConfigMap 0-worker has to be gone before its successor is made
        "]],
        );
    }

    #[test]
    fn another_kind_of_that_name_is_no_namesake() {
        let mut other = holder("0-service", &json!({}));
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
