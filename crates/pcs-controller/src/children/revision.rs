//! The hashes of a set's templates, computed once though a thousand children carry them.

use std::collections::BTreeMap;

use grove_api_types::hash;
use grove_api_types::v1alpha1::{PodCliqueSetTemplateSpec, PodCliqueTemplateSpec};

/// What the children of a set are made from.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    /// The hash of all cliques.
    pub(crate) generation: String,
    by_clique: BTreeMap<String, String>,
}

impl Revision {
    /// The revision that `template` is.
    pub(crate) fn of(template: &PodCliqueSetTemplateSpec) -> Self {
        let hash = |clique: &PodCliqueTemplateSpec| hash::pod_template(clique, &template.priority_class_name);
        let by_clique = template.cliques.iter().map(|clique| (clique.name.clone(), hash(clique))).collect();
        Self { generation: hash::generation(template), by_clique }
    }

    /// The hash of the pods of one clique; empty for a name that the template does not have.
    pub(crate) fn pod_template(&self, clique: &str) -> &str {
        self.by_clique.get(clique).map(String::as_str).unwrap_or_default()
    }
}
