//! Decodes the enums of stored objects. A later version may have stored a value that this version does not define, and one such
//! value must not make the whole object unreadable.

use serde::de::{DeserializeOwned, IntoDeserializer, value};
use serde::{Deserialize, Deserializer};

/// Decodes an enum. A value that this version does not define becomes the default.
pub(crate) fn unknown_as_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let text: value::StringDeserializer<value::Error> = String::deserialize(from)?.into_deserializer();
    Ok(T::deserialize(text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::scheduler_v1alpha1::{PodGangPhase, PodGangStatus};
    use crate::v1alpha1::{
        CliqueStartupType, PodCliqueSetSpec, PodCliqueSetStatus, PodGangStatusPhase, ResourceSharingScope,
        UpdateStrategyType,
    };

    #[test]
    fn values_of_later_versions_become_the_default_and_defined_values_stay() {
        let spec = |strategy: &str, startup: &str, scope: &str| -> PodCliqueSetSpec {
            serde_json::from_value(json!({
                "updateStrategy": { "type": strategy },
                "template": { "cliques": [], "cliqueStartupType": startup, "resourceSharing": [{ "name": "r", "scope": scope }] },
            }))
            .unwrap()
        };
        let values = |spec: &PodCliqueSetSpec| {
            let template = &spec.template;
            (
                spec.update_strategy.as_ref().unwrap().type_,
                template.clique_startup_type,
                template.resource_sharing[0].scope,
            )
        };
        let later = values(&spec("Coherent", "CliqueStartupTypeRandom", "PerRack"));
        assert_eq!(
            later,
            (UpdateStrategyType::RollingRecreate, CliqueStartupType::AnyOrder, ResourceSharingScope::AllReplicas)
        );
        let defined = values(&spec("OnDelete", "CliqueStartupTypeInOrder", "PerReplica"));
        assert_eq!(
            defined,
            (UpdateStrategyType::OnDelete, CliqueStartupType::InOrder, ResourceSharingScope::PerReplica)
        );
    }

    #[test]
    fn a_phase_of_a_later_version_is_pending() {
        let gang = |phase: &str| -> PodGangStatus { serde_json::from_value(json!({ "phase": phase })).unwrap() };
        assert_eq!((gang("Draining").phase, gang("Running").phase), (PodGangPhase::Pending, PodGangPhase::Running));
        let gangs =
            json!({ "podGangStatuses": [{ "name": "a", "phase": "Draining" }, { "name": "b", "phase": "Failed" }] });
        let set: PodCliqueSetStatus = serde_json::from_value(gangs).unwrap();
        let phases: Vec<_> = set.pod_gang_statuses.iter().map(|gang| gang.phase).collect();
        assert_eq!(phases, [PodGangStatusPhase::Pending, PodGangStatusPhase::Failed]);
    }
}
