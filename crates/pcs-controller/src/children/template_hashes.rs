//! The hashes of a set's templates, computed once per reconcile although a thousand children carry them.

use std::collections::BTreeMap;

use grove_api_types::hash;
use grove_api_types::v1alpha1::{PodCliqueSetTemplateSpec, PodCliqueTemplateSpec};

/// The hashes of the current templates of a set.
#[derive(Clone, Debug)]
pub(crate) struct TemplateHashes {
    /// The hash of the whole template.
    pub(crate) generation_hash: String,
    by_clique: BTreeMap<String, String>,
}

impl TemplateHashes {
    /// The hashes of `template`.
    pub(crate) fn of(template: &PodCliqueSetTemplateSpec) -> Self {
        let hash = |clique: &PodCliqueTemplateSpec| hash::pod_template(clique, &template.priority_class_name);
        let by_clique = template.cliques.iter().map(|clique| (clique.name.clone(), hash(clique))).collect();
        Self { generation_hash: hash::generation(template), by_clique }
    }

    /// The hash of the pod template of one clique; empty if the template has no clique of that name.
    pub(crate) fn pod_template(&self, clique: &str) -> &str {
        self.by_clique.get(clique).map(String::as_str).unwrap_or_default()
    }
}
