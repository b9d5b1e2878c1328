//! `resourceSharing`: the `ResourceClaimTemplate`s that sets may refer to.

use super::document::Section;

/// `resourceSharing`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceSharing {
    /// When claims are created from templates of other namespaces. Default: `Reviewed`.
    pub cross_namespace_templates: CrossNamespaceTemplates,
}

/// When a controller creates claims from a template of another namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossNamespaceTemplates {
    /// While webhook-server checks that a user may read the template before an object of this user refers to it.
    #[default]
    Reviewed,
    /// Always: each user with the permission to create sets may use, and so read, all templates of the cluster.
    Allowed,
}

impl CrossNamespaceTemplates {
    const ALL: [(&'static str, Self); 2] = [("Reviewed", Self::Reviewed), ("Allowed", Self::Allowed)];
}

impl ResourceSharing {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let templates = section.enum_value("crossNamespaceTemplates", &CrossNamespaceTemplates::ALL);
        Self { cross_namespace_templates: templates.unwrap_or_default() }
    }
}
