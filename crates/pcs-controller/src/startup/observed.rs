//! The identity of a set: the objects by which its waiting pods authenticate. Pure.

use std::collections::BTreeSet;

use grove_api_types::configuration::StartupToken;
use grove_api_types::names::{PodCliqueSetName, PodRoleName, PodServiceAccountName, TokenSecretName};
use grove_api_types::startup::has_dependencies;
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueTemplateSpec};
use grove_controller::children::ObservedChildren;
use grove_controller::name_conflict::NameConflicts;
use grove_controller::plan::Waiting;
use kube::ResourceExt;

use super::objects::{SlimRole, SlimRoleBinding, SlimServiceAccount, SlimTokenSecret};

/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// What a set has for its waiting pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The kind of token that waiting pods use.
    pub(crate) token: StartupToken,
    /// Whether a pod may still use objects that the set does not need any more.
    pub(crate) is_in_use: bool,
}

impl Identity {
    /// The name of the Role and of the `RoleBinding`, if the set has them.
    pub(crate) fn role(set: &PodCliqueSet) -> Option<PodRoleName> {
        has_dependencies(&set.spec.template).then(|| PodRoleName::of_set(&name(set)))
    }

    /// The name of the account, if the set has one.
    pub(crate) fn account(self, set: &PodCliqueSet) -> Option<PodServiceAccountName> {
        let has_account = has_dependencies(&set.spec.template) && self.token == StartupToken::Secret;
        has_account.then(|| PodServiceAccountName::of_set(&name(set)))
    }

    /// The name of the Secret with the token of the account, if the set has one.
    pub(crate) fn secret(self, set: &PodCliqueSet) -> Option<TokenSecretName> {
        self.account(set).map(|_| TokenSecretName::of_set(&name(set)))
    }

    /// Whether the set has objects of an identity that it does not need any more.
    pub(crate) fn is_undesired_in(self, set: &PodCliqueSet, children: &ObservedChildren) -> bool {
        let has_account = children.of_kind::<SlimServiceAccount>().next().is_some();
        let has_role = children.of_kind::<SlimRole>().next().is_some();
        let has_role = has_role || children.of_kind::<SlimRoleBinding>().next().is_some();
        let has_secret = children.of_kind::<SlimTokenSecret>().next().is_some();
        (Self::role(set).is_none() && has_role) || (self.account(set).is_none() && (has_account || has_secret))
    }

    /// The accounts that may read pods: that of the set, or those of its pods.
    pub(crate) fn readers(self, set: &PodCliqueSet) -> BTreeSet<String> {
        match self.account(set) {
            Some(account) => BTreeSet::from([account.to_string()]),
            None => set.spec.template.cliques.iter().map(account_of_pods).collect(),
        }
    }
}

fn name(set: &PodCliqueSet) -> PodCliqueSetName {
    PodCliqueSetName::new(set.name_any())
}

/// The account of the pods of a clique. `serviceAccount` is the older name of the field.
fn account_of_pods(clique: &PodCliqueTemplateSpec) -> String {
    let field =
        |name: &str| clique.spec.pod_spec.get(name)?.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    let account = field("serviceAccountName").or_else(|| field("serviceAccount"));
    account.unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned())
}

/// Why cliques that start after others are not created: another owner has a name of the identity of their set.
pub(crate) fn identity_conflict(conflicts: &NameConflicts<'_, PodCliqueSet>) -> Option<Waiting> {
    let accounts = conflicts.waiting_of_kind::<SlimServiceAccount>();
    let roles = conflicts.waiting_of_kind::<SlimRole>().chain(conflicts.waiting_of_kind::<SlimRoleBinding>());
    let mut all = accounts.chain(roles).chain(conflicts.waiting_of_kind::<SlimTokenSecret>());
    let (_, Waiting { reason, message }) = all.next()?;
    Some(Waiting::new(reason, format!("PodCliques that start after others are not created: {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::yaml;

    fn set(startup: &str) -> PodCliqueSet {
        yaml(&format!(
            "
metadata: {{name: llm, namespace: prod, uid: u-set}}
spec:
  template:
    cliqueStartupType: CliqueStartupType{startup}
    cliques:
    - {{name: a, spec: {{podSpec: {{containers: []}}}}}}
    - {{name: b, spec: {{podSpec: {{serviceAccountName: own, serviceAccount: older, containers: []}}}}}}
    - {{name: c, spec: {{podSpec: {{serviceAccountName: '', serviceAccount: older, containers: []}}}}}}
"
        ))
    }

    #[test]
    fn only_a_set_with_dependencies_has_an_identity() {
        for token in [StartupToken::Secret, StartupToken::Projected] {
            let (identity, set) = (Identity { token, is_in_use: false }, set("AnyOrder"));
            assert_eq!((Identity::role(&set), identity.account(&set), identity.secret(&set)), (None, None, None));
        }
    }

    #[test]
    fn the_readers_are_the_account_of_the_set_or_those_of_the_pods() {
        let set = set("InOrder");
        let identity = |token| Identity { token, is_in_use: false };
        let names = |token| {
            let identity = identity(token);
            let (role, account) = (Identity::role(&set).unwrap(), identity.account(&set).map(String::from));
            (role.to_string(), account, identity.secret(&set).map(String::from), identity.readers(&set))
        };
        let (role, own) = ("grove.io:pcs:llm".to_owned(), Some("llm".to_owned()));
        let secret = Some("llm-ic-sat".to_owned());
        assert_eq!(names(StartupToken::Secret), (role.clone(), own, secret, BTreeSet::from(["llm".to_owned()])));
        let of_pods = ["default", "own", "older"].map(str::to_owned).into();
        assert_eq!(names(StartupToken::Projected), (role, None, None, of_pods));
    }
}
