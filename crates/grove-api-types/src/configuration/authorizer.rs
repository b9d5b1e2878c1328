//! `authorizer`: who may change what Grove manages.

use super::document::Section;

/// Who may change what Grove manages, as the webhook server enforces it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorizer {
    /// `enabled`
    pub enabled: bool,
    /// User names that may, beside Grove's own accounts, for example `system:serviceaccount:kube-system:job-controller`.
    pub exempt_users: Vec<String>,
}

impl Authorizer {
    pub(super) fn read(section: &Section<'_>) -> Self {
        // Written by the Go operator's chart, and read by nobody there either.
        section.text("reconcilerServiceAccountUserName");
        Self {
            enabled: section.flag("enabled").unwrap_or_default(),
            exempt_users: section.texts("exemptServiceAccountUserNames").unwrap_or_default(),
        }
    }
}
