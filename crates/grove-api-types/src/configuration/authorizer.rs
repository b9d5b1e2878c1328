//! `authorizer`: the protection of managed objects.

use super::document::Section;

/// The protection of managed objects, which webhook-server enforces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorizer {
    /// Whether managed objects are protected. Default: false.
    pub enabled: bool,
    /// Users that may change managed objects, in addition to Grove's accounts. Example:
    /// `system:serviceaccount:kube-system:job-controller`.
    pub exempt_users: Vec<String>,
}

impl Authorizer {
    pub(super) fn read(section: &Section<'_>) -> Self {
        // The chart of the Go operator writes this key, and the Go operator ignores it.
        section.string("reconcilerServiceAccountUserName");
        Self {
            enabled: section.bool("enabled").unwrap_or_default(),
            exempt_users: section.strings("exemptServiceAccountUserNames").unwrap_or_default(),
        }
    }
}
