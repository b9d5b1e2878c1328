//! The `PodGroup` of the workload API (`scheduling.k8s.io`) that the pods of a gang belong to. pcs-controller decides its name and its
//! immutable fields, and records them in annotations of the `PodGang`. topology-controller creates it, and pclq-controller names it in
//! the pods.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::annotation_value::{self, UnreadableAnnotation};
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

/// The numbers in the name of a `PodGroup`. A later `PodGroup` of the gang has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodGroupNumber {
    /// The incarnation of the gang.
    pub incarnation: i64,
    /// `None` for the first `PodGroup` of the incarnation. A successor has the pods that were not bound when it began.
    pub successor: Option<i64>,
}

/// The name and the immutable fields of a `PodGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroupRef {
    /// `<PodGang>-<incarnation>`, or `<PodGang>-<incarnation>.<successor>`.
    pub name: String,
    /// The immutable fields.
    pub spec: PodGroupSpec,
}

/// The fields of a `PodGroup` that are chosen at the beginning of an incarnation. The API server denies changes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// The number of pods that are scheduled together: the sum of the minimums of the cliques, in a successor without the pods that were
    /// bound when it began.
    pub min_count: i32,
    /// The priority of the gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// How the gang is packed; `None` without topology constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing: Option<PackRecord>,
    /// The required pods of the cliques that were scaled below their minimum, by the name of the clique. Further pods of them are created
    /// only after the next decision, which may be about another `PodGroup`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub below_minimum: BTreeMap<String, i32>,
}

/// The topology constraints at the beginning of an incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackRecord {
    /// The key of node labels in the `PodGroup`: all pods are on nodes with the same value. `None` if no constraint concerns the whole gang,
    /// or if the API server does not store the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The [digest](crate::pack_affinity::digest) of all constraints of the gang.
    pub constraints: String,
}

impl PodGroupSpec {
    /// Whether an incarnation with these fields is what `wanted` describes. The keys are not compared: the API server may not store the
    /// wanted one, and otherwise it follows from the constraints.
    pub fn satisfies(&self, wanted: &Self) -> bool {
        let Self { min_count, priority_class_name, packing, below_minimum } = self;
        let constraints = |packing: &Option<PackRecord>| packing.as_ref().map(|packing| packing.constraints.clone());
        *min_count == wanted.min_count
            && *priority_class_name == wanted.priority_class_name
            && *below_minimum == wanted.below_minimum
            && constraints(packing) == constraints(&wanted.packing)
    }
}

impl PodGroupRef {
    /// The `PodGroup` of a new incarnation of the gang. The incarnation is the time in milliseconds since 1970, so the name differs from
    /// those of all earlier incarnations, whose pods may still be terminating.
    pub fn of_incarnation(gang: &str, milliseconds: i64, spec: PodGroupSpec) -> Self {
        Self::of_number(gang, PodGroupNumber { incarnation: milliseconds, successor: None }, spec)
    }

    /// The `PodGroup` of this number.
    pub fn of_number(gang: &str, number: PodGroupNumber, spec: PodGroupSpec) -> Self {
        let PodGroupNumber { incarnation, successor } = number;
        let gang = PodGangName::new(gang);
        let name = successor.map_or_else(
            || PodGroupName::of_incarnation(&gang, incarnation),
            |successor| PodGroupName::of_successor(&gang, incarnation, successor),
        );
        Self { name: name.into(), spec }
    }

    /// The `PodGroup` that the annotations of the gang name; `None` if they name none.
    ///
    /// # Errors
    /// If the name is none that pcs-controller could have chosen, or the record of the fields cannot be read.
    pub fn of_gang(gang: &PodGang) -> Result<Option<Self>, UnreadableAnnotation> {
        let Some(name) = name_in_annotation(&gang.name_any(), gang)? else { return Ok(None) };
        let record = gang.annotations().get(POD_GROUP_SPEC);
        let record = record.ok_or_else(|| UnreadableAnnotation::missing(POD_GROUP_SPEC))?;
        Ok(Some(Self { name: name.to_owned(), spec: annotation_value::decode(POD_GROUP_SPEC, record)? }))
    }

    /// The annotations of the gang.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let spec = annotation_value::encode(&self.spec);
        BTreeMap::from([(POD_GROUP.to_owned(), self.name.clone()), (POD_GROUP_SPEC.to_owned(), spec)])
    }
}

/// The name of the `PodGroup` in the annotation of the gang, or of a clique of it; `None` without the annotation.
///
/// # Errors
/// If the name is none that pcs-controller could have chosen.
pub fn name_in_annotation<'a>(
    gang: &str,
    object: &'a impl ResourceExt,
) -> Result<Option<&'a str>, UnreadableAnnotation> {
    let Some(name) = object.annotations().get(POD_GROUP) else { return Ok(None) };
    let detail = || {
        format!("it is not the name of the PodGang, {gang}, a hyphen, a number, and possibly a dot and another number")
    };
    number(gang, name).ok_or_else(|| UnreadableAnnotation::invalid(POD_GROUP, &detail()))?;
    Ok(Some(name))
}

/// The number in the name of a `PodGroup` of the gang; `None` if the name is neither `<PodGang>-<incarnation>` nor
/// `<PodGang>-<incarnation>.<successor>`.
pub fn number(gang: &str, pod_group: &str) -> Option<PodGroupNumber> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let numbers = pod_group.strip_prefix(gang)?.strip_prefix('-')?;
    let Some((incarnation, successor)) = numbers.split_once('.') else {
        return Some(PodGroupNumber { incarnation: digits(numbers)?, successor: None });
    };
    Some(PodGroupNumber { incarnation: digits(incarnation)?, successor: Some(digits(successor)?) })
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
            let spec = PodGroupSpec {
                min_count: 8,
                priority_class_name,
                packing,
                below_minimum: [("a".to_owned(), 0)].into(),
            };
            let group = PodGroupRef::of_incarnation("my-llm-0", 1_700_000_000_000, spec);
            assert_eq!(group.name, "my-llm-0-1700000000000");
            let mut gang = gang("my-llm-0", &[]);
            gang.metadata.annotations = Some(group.annotations());
            assert_eq!(PodGroupRef::of_gang(&gang), Ok(Some(group)));
        }
    }

    #[test]
    fn a_name_that_no_incarnation_has_is_an_error() {
        let record = (POD_GROUP_SPEC, r#"{"minCount":1}"#);
        for name in [
            "",
            "my-llm-0",
            "my-llm-0-",
            "my-llm-0-x",
            "other-1",
            "my-llm-0--1",
            "my-llm-0-99999999999999999999",
            "my-llm-0-1.",
            "my-llm-0-.2",
            "my-llm-0-1.2.3",
            "my-llm-0-1-2",
        ] {
            let error = PodGroupRef::of_gang(&gang("my-llm-0", &[(POD_GROUP, name), record])).expect_err(name);
            let message = error.message("topology-controller");
            assert!(message.starts_with("annotation grove.io/pod-group cannot be decoded: "), "{message}");
        }
        assert_eq!(PodGroupRef::of_gang(&gang("my-llm-0", &[record])), Ok(None));
    }

    #[test]
    fn later_pod_groups_of_a_gang_have_larger_numbers() {
        let of = |incarnation, successor| PodGroupNumber { incarnation, successor };
        let numbers = [of(9, None), of(10, None), of(10, Some(2)), of(10, Some(11)), of(11, None)];
        assert!(numbers.is_sorted());
        for expected in numbers {
            let PodGroupRef { name, .. } = PodGroupRef::of_number("my-llm-0", expected, PodGroupSpec::default());
            assert_eq!(number("my-llm-0", &name), Some(expected), "{name}");
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_is_an_error() {
        let read = |record: Option<&str>| {
            let record = record.map(|record| (POD_GROUP_SPEC, record));
            let annotations: Vec<_> = [(POD_GROUP, "my-llm-0-1")].into_iter().chain(record).collect();
            PodGroupRef::of_gang(&gang("my-llm-0", &annotations))
        };
        let of_older_writer = read(Some(r#"{"minCount":3,"packing":{"constraints":"1"}}"#)).unwrap().unwrap().spec;
        let packing = PackRecord { key: None, constraints: "1".to_owned() };
        assert_eq!(of_older_writer, PodGroupSpec { min_count: 3, packing: Some(packing), ..PodGroupSpec::default() });
        for (record, is_of_later_version) in [
            (None, false),
            (Some("["), false),
            (Some("{}"), false),
            (Some(r#"{"minCount":3,"packing":{}}"#), false),
            (Some(r#"{"v":2,"minCount":3}"#), true),
        ] {
            let error = read(record).expect_err("unreadable");
            assert_eq!(error.is_of_later_version(), is_of_later_version, "{record:?}");
            assert!(error.message("r").starts_with("annotation grove.io/pod-group-spec "), "{error:?}");
        }
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
            below_minimum: BTreeMap::new(),
        };
        let wanted = spec(2, "a", Some(("rack", "1")));
        for (recorded, satisfies) in [
            (wanted.clone(), true),
            (spec(2, "a", Some(("", "1"))), true),
            (spec(2, "a", Some(("rack", "2"))), false),
            (spec(2, "a", None), false),
            (spec(3, "a", Some(("rack", "1"))), false),
            (spec(2, "b", Some(("rack", "1"))), false),
            (PodGroupSpec { below_minimum: [("a".to_owned(), 1)].into(), ..wanted.clone() }, false),
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
