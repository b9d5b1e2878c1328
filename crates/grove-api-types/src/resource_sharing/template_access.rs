//! The references to `ResourceClaimTemplate`s of other namespaces. The controllers read templates with their own accounts, so webhook-server
//! asks the API server whether the user of such a request may read the template.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::MAX_REFERENCES;
use super::claim_source::{ClaimSource, TemplateReference, sources_of_clique, sources_of_group, sources_of_set};
use super::clique_claims::CliqueClaims;
use crate::labels::RESOURCE_CLAIMS;
use crate::v1alpha1::{PodClique, PodCliqueSet};

/// The name of the `ValidatingWebhookConfiguration` for these references. While it exists, webhook-server reviews those of sets and of
/// `PodClique`s, and the controllers create claims from templates of other namespaces.
pub const REVIEWING_WEBHOOK: &str = "claim-templates-validating-webhook";

/// Namespace and name of a template of another namespace.
pub type Template = (String, String);

/// The templates of other namespaces that an object refers to, each with the first field that names it.
pub type CrossNamespaceTemplates = BTreeMap<Template, String>;

/// The templates of other namespaces that the set refers to.
pub fn of_set(set: &PodCliqueSet) -> CrossNamespaceTemplates {
    let template = &set.spec.template;
    let of_groups = template.pod_clique_scaling_groups.iter().flat_map(|group| sources_of_group(template, group));
    let of_cliques = template.cliques.iter().flat_map(|clique| sources_of_clique(template, clique));
    let sources = sources_of_set(template).into_iter().chain(of_groups).chain(of_cliques);
    templates(&set.namespace().unwrap_or_default(), sources)
}

/// The templates of other namespaces in the annotation of the clique.
///
/// # Errors
/// If the annotation cannot be read. The message names the annotation.
pub fn of_clique(clique: &PodClique) -> Result<CrossNamespaceTemplates, String> {
    let claims = CliqueClaims::from_annotations(clique.annotations());
    let claims = claims.map_err(|error| error.message("webhook-server"))?.unwrap_or_default();
    let field = format!("metadata.annotations[{RESOURCE_CLAIMS}]");
    let sources = claims.claims.iter().map(|claim| ClaimSource { field: field.clone(), ..claim.source() });
    Ok(templates(&clique.namespace().unwrap_or_default(), sources))
}

/// Those of `new` that are not in `old`. A user without the permission to read a template may change other fields of an object that refers to it.
///
/// # Errors
/// If there are more than a request can be reviewed for.
pub fn added(new: CrossNamespaceTemplates, old: &CrossNamespaceTemplates) -> Result<CrossNamespaceTemplates, String> {
    let added: CrossNamespaceTemplates = new.into_iter().filter(|(template, _)| !old.contains_key(template)).collect();
    if added.len() > MAX_REFERENCES {
        return Err(format!(
            "the object refers to {} ResourceClaimTemplates of other namespaces, and may refer to at most {MAX_REFERENCES}; copy \
             templates into the namespace of the object",
            added.len()
        ));
    }
    Ok(added)
}

fn templates<'a>(namespace: &str, sources: impl Iterator<Item = ClaimSource<'a>>) -> CrossNamespaceTemplates {
    let mut templates = CrossNamespaceTemplates::new();
    for source in sources {
        let TemplateReference::External(external) = source.template else { continue };
        // A template of another name does not exist.
        if let Some(other) = external.other_namespace(namespace).filter(|_| external.is_valid()) {
            templates.entry((other.to_owned(), external.name.to_owned())).or_insert(source.field);
        }
    }
    templates
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(sharing: &Value) -> PodCliqueSet {
        serde_json::from_value(json!({
            "metadata": { "name": "llm", "namespace": "team-a" },
            "spec": { "replicas": 1, "template": {
                "resourceClaimTemplates": [{ "name": "own", "templateSpec": {} }],
                "resourceSharing": sharing,
                "podCliqueScalingGroups": [{ "name": "g", "cliqueNames": ["work"], "resourceSharing": sharing }],
                "cliques": [{ "name": "work", "spec": { "replicas": 1, "podSpec": {} }, "resourceSharing": sharing }],
            } },
        }))
        .unwrap()
    }

    #[test]
    fn references_to_other_namespaces_are_found_at_each_level() {
        let share = |name: &str, namespace: Option<&str>| json!({ "name": name, "namespace": namespace, "scope": "PerReplica" });
        let own =
            json!([share("own", None), share("other", None), share("gpus", Some("team-a")), share("x", Some(""))]);
        assert_eq!(of_set(&set(&own)), CrossNamespaceTemplates::new());
        let foreign = json!([share("own", None), share("gpus", Some("team-b"))]);
        let key = ("team-b".to_owned(), "gpus".to_owned());
        let everywhere = of_set(&set(&foreign));
        assert_eq!(everywhere, [(key.clone(), "spec.template.resourceSharing[1].name".to_owned())].into());
        for (level, field) in [
            ("/spec/template", "spec.template.resourceSharing[1].name"),
            (
                "/spec/template/podCliqueScalingGroups/0",
                "spec.template.podCliqueScalingGroups[0].resourceSharing[1].name",
            ),
            ("/spec/template/cliques/0", "spec.template.cliques[0].resourceSharing[1].name"),
        ] {
            let mut object = serde_json::to_value(set(&json!([]))).unwrap();
            object.pointer_mut(level).unwrap()["resourceSharing"] = foreign.clone();
            let found = of_set(&serde_json::from_value(object).unwrap());
            assert_eq!(found, [(key.clone(), field.to_owned())].into());
        }
    }

    #[test]
    fn references_in_the_annotation_of_a_clique_are_found() {
        let clique = |value: &str| -> PodClique {
            serde_json::from_value(json!({
                "metadata": { "namespace": "team-a", "annotations": { RESOURCE_CLAIMS: value } },
                "spec": { "replicas": 1, "podSpec": {} },
            }))
            .unwrap()
        };
        let claims = r#"{"claims": [{"template": "gpus", "name\u0073pace": "team-b", "scope": "PerReplica", "field": "x"},
            {"template": "gpus", "namespace": "team-a", "scope": "PerReplica"}]}"#;
        let expected =
            [(("team-b".to_owned(), "gpus".to_owned()), "metadata.annotations[grove.io/resource-claims]".to_owned())];
        assert_eq!(of_clique(&clique(claims)), Ok(expected.into()));
        let later = r#"{"v":2,"claims":[]}"#;
        let unknown = r#"{"claims":[{"template":"t","scope":"PerRack"}]}"#;
        for (value, cause) in [("{", "cannot be decoded"), (later, "has version 2"), (unknown, "PerRack")] {
            let message = of_clique(&clique(value)).unwrap_err();
            assert!(message.contains("grove.io/resource-claims") && message.contains(cause), "{message}");
        }
    }

    #[test]
    fn only_added_references_need_a_review_and_their_number_is_limited() {
        let templates = |numbers: std::ops::Range<usize>| -> CrossNamespaceTemplates {
            numbers.map(|at| (("team-b".to_owned(), format!("t-{at:03}")), "f".to_owned())).collect()
        };
        assert_eq!(added(templates(0..3), &templates(0..2)), Ok(templates(2..3)));
        assert_eq!(added(templates(0..100), &templates(0..36)).map(|added| added.len()), Ok(MAX_REFERENCES));
        assert!(
            added(templates(0..100), &templates(0..35)).unwrap_err().contains("refers to 65 ResourceClaimTemplates")
        );
    }
}
