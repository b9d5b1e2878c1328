//! The `PodGroup` of the workload API (`scheduling.k8s.io`) that the pods of a gang belong to. pcs-controller decides its name and its
//! immutable fields, and records them in annotations of the `PodGang`. topology-controller creates it, and pclq-controller names it in
//! the pods.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::labels::{PART_OF, POD_GROUP, POD_GROUP_SPEC};
use crate::names::{PodCliqueSetName, PodGangName, PodGroupName};
use crate::scheduler_v1alpha1::PodGang;

/// The API group of the workload API.
pub const GROUP: &str = "scheduling.k8s.io";

/// A version of the workload API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiVersion {
    /// Kubernetes 1.36.
    #[default]
    V1Alpha2,
    /// Kubernetes 1.37. It was not tried on a server.
    V1Beta1,
}

impl ApiVersion {
    /// The version in an `apiVersion`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Alpha2 => "v1alpha2",
            Self::V1Beta1 => "v1beta1",
        }
    }

    /// The version to try if the API server does not serve this one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V1Alpha2 => Self::V1Beta1,
            Self::V1Beta1 => Self::V1Alpha2,
        }
    }
}

/// The name and the immutable fields of a `PodGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroupRef {
    /// `<PodGang>-<incarnation>`.
    pub name: String,
    /// The immutable fields.
    pub spec: PodGroupSpec,
}

/// The fields of a `PodGroup` that are chosen at the beginning of an incarnation. The API server denies changes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// The number of pods that are scheduled together: the sum of the minimums of the cliques.
    pub min_count: i32,
    /// The priority of the gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// How the gang is packed; `None` without topology constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packing: Option<PackRecord>,
}

/// The topology constraints at the beginning of an incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PackRecord {
    /// The key of node labels in the `PodGroup`: all pods are on nodes with the same value. `None` if no constraint concerns the whole gang,
    /// or if the API server does not store the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The [digest](crate::pack_affinity::digest) of all constraints of the gang.
    pub constraints: String,
}

impl PodGroupSpec {
    /// Whether an incarnation with these fields is what `wanted` describes. The keys are not compared: the API server may not store the
    /// wanted one, and otherwise it follows from the constraints.
    pub fn satisfies(&self, wanted: &Self) -> bool {
        let Self { min_count, priority_class_name, packing } = self;
        let constraints = |packing: &Option<PackRecord>| packing.as_ref().map(|packing| packing.constraints.clone());
        *min_count == wanted.min_count
            && *priority_class_name == wanted.priority_class_name
            && constraints(packing) == constraints(&wanted.packing)
    }
}

impl PodGroupRef {
    /// The `PodGroup` of a new incarnation of the gang. The incarnation is the time in milliseconds since 1970, so the name differs from
    /// those of all earlier incarnations, whose pods may still be terminating.
    pub fn of_incarnation(gang: &str, milliseconds: i64, spec: PodGroupSpec) -> Self {
        Self { name: PodGroupName::of_incarnation(&PodGangName::new(gang), milliseconds).into(), spec }
    }

    /// The `PodGroup` that the annotations of the gang name; `None` if they name none that pcs-controller could have chosen. An invalid
    /// record of its fields counts as an empty one.
    pub fn of_gang(gang: &PodGang) -> Option<Self> {
        let name = gang.annotations().get(POD_GROUP)?;
        incarnation(&gang.name_any(), name)?;
        let spec = gang.annotations().get(POD_GROUP_SPEC).and_then(|spec| serde_json::from_str(spec).ok());
        Some(Self { name: name.clone(), spec: spec.unwrap_or_default() })
    }

    /// The annotations of the gang.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let spec = serde_json::to_string(&self.spec).unwrap_or_default();
        BTreeMap::from([(POD_GROUP.to_owned(), self.name.clone()), (POD_GROUP_SPEC.to_owned(), spec)])
    }
}

/// The incarnation of the gang in the name of a `PodGroup`; `None` if the name is not `<PodGang>-<incarnation>`. Later incarnations have
/// larger numbers.
pub fn incarnation(gang: &str, pod_group: &str) -> Option<i64> {
    let digits = pod_group.strip_prefix(gang)?.strip_prefix('-')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The base gang of a scaled gang, from its name and the label of its set; `None` for a base gang.
pub fn base_gang(gang: &PodGang) -> Option<PodGangName> {
    let set = gang.labels().get(PART_OF)?;
    let name = gang.metadata.name.as_deref()?.strip_prefix(set.as_str())?.strip_prefix('-')?;
    let (replica, _) = name.split_once('-')?;
    Some(PodGangName::base(&PodCliqueSetName::new(set), replica.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use crate::labels;
    use crate::scheduler_v1alpha1::PodGangSpec;

    use super::*;

    fn gang(name: &str, annotations: &[(&str, &str)]) -> PodGang {
        let mut gang = PodGang::new(name, PodGangSpec::default());
        gang.metadata.labels = Some(labels::of([(PART_OF, "my-llm")]));
        gang.metadata.annotations = Some(labels::of(annotations.iter().copied()));
        gang
    }

    #[test]
    fn annotations_round_trip() {
        let packing = PackRecord { key: Some("rack".to_owned()), constraints: "1".to_owned() };
        for (priority_class_name, packing) in [(None, None), (Some("high".to_owned()), Some(packing))] {
            let spec = PodGroupSpec { min_count: 8, priority_class_name, packing };
            let group = PodGroupRef::of_incarnation("my-llm-0", 1_700_000_000_000, spec);
            assert_eq!(group.name, "my-llm-0-1700000000000");
            let mut gang = gang("my-llm-0", &[]);
            gang.metadata.annotations = Some(group.annotations());
            assert_eq!(PodGroupRef::of_gang(&gang), Some(group));
        }
    }

    #[test]
    fn a_name_that_no_incarnation_has_is_ignored() {
        for name in
            ["", "my-llm-0", "my-llm-0-", "my-llm-0-x", "other-1", "my-llm-0--1", "my-llm-0-99999999999999999999"]
        {
            assert_eq!(PodGroupRef::of_gang(&gang("my-llm-0", &[(POD_GROUP, name)])), None, "{name}");
        }
        let empty = PodGroupRef { name: "my-llm-0-1".to_owned(), spec: PodGroupSpec::default() };
        let with_invalid_spec = gang("my-llm-0", &[(POD_GROUP, "my-llm-0-1"), (POD_GROUP_SPEC, "[")]);
        assert_eq!(PodGroupRef::of_gang(&with_invalid_spec), Some(empty));
    }

    #[test]
    fn an_incarnation_satisfies_equal_fields_with_any_key() {
        let spec = |min_count: i32, priority: &str, packing: Option<(&str, &str)>| PodGroupSpec {
            min_count,
            priority_class_name: Some(priority.to_owned()),
            packing: packing.map(|(key, constraints)| PackRecord {
                key: Some(key.to_owned()).filter(|key| !key.is_empty()),
                constraints: constraints.to_owned(),
            }),
        };
        let wanted = spec(2, "a", Some(("rack", "1")));
        for (recorded, satisfies) in [
            (wanted.clone(), true),
            (spec(2, "a", Some(("", "1"))), true),
            (spec(2, "a", Some(("rack", "2"))), false),
            (spec(2, "a", None), false),
            (spec(3, "a", Some(("rack", "1"))), false),
            (spec(2, "b", Some(("rack", "1"))), false),
        ] {
            assert_eq!(recorded.satisfies(&wanted), satisfies, "{recorded:?}");
        }
    }

    #[test]
    fn only_scaled_gangs_have_a_base_gang() {
        let base_of = |name: &str| base_gang(&gang(name, &[])).map(String::from);
        assert_eq!(base_of("my-llm-0"), None);
        assert_eq!(base_of("my-llm-12-prefill-3"), Some("my-llm-12".to_owned()));
        assert_eq!(base_of("my-llm-0-a-b-3"), Some("my-llm-0".to_owned()));
        assert_eq!(base_of("my-llm-x-a-3"), None);
        assert_eq!(base_of("other-0-a-3"), None);
    }
}
