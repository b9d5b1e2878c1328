//! The identity of a set: the objects by which its waiting pods authenticate. Pure.

use std::collections::BTreeSet;

use grove_api_types::configuration::StartupToken;
use grove_api_types::names::{PodCliqueSetName, PodRoleName, PodServiceAccountName, TokenSecretName};
use grove_api_types::ownership::is_adoptable;
use grove_api_types::startup::has_dependencies;
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueTemplateSpec};
use grove_controller::children::ObservedChildren;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use grove_controller::plan::Waiting;
use kube::{Resource, ResourceExt};

use super::objects::{SlimRole, SlimRoleBinding, SlimServiceAccount, SlimTokenSecret};

/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// What a set has for its waiting pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The kind of token that waiting pods use.
    pub(crate) token: StartupToken,
    /// Whether a pod may still use objects that the set does not need any more.
    pub(crate) is_in_use: bool,
    /// The UID of the account of the set, if it exists.
    pub(crate) account_uid: Option<String>,
    /// Whether an account of another owner has the name.
    pub(crate) is_account_foreign: bool,
}

impl Identity {
    /// For this kind of token.
    pub(crate) fn new(token: StartupToken, set: &PodCliqueSet, children: &ObservedChildren) -> Self {
        let account = children.get::<SlimServiceAccount>(PodServiceAccountName::of_set(&name(set)).as_str());
        let account_uid = account.and_then(|account| account.uid());
        Self { token, account_uid, ..Self::default() }
    }

    /// The name of the Role and of the `RoleBinding`, if the set has them.
    pub(crate) fn role(set: &PodCliqueSet) -> Option<PodRoleName> {
        has_dependencies(&set.spec.template).then(|| PodRoleName::of_set(&name(set)))
    }

    /// The name of the account, if the set has one.
    pub(crate) fn account(&self, set: &PodCliqueSet) -> Option<PodServiceAccountName> {
        let has_account = has_dependencies(&set.spec.template) && self.token == StartupToken::Secret;
        has_account.then(|| PodServiceAccountName::of_set(&name(set)))
    }

    /// The name of the Secret with the token of the account, if the set has one.
    pub(crate) fn secret(&self, set: &PodCliqueSet) -> Option<TokenSecretName> {
        self.account(set).map(|_| TokenSecretName::of_set(&name(set)))
    }

    /// The objects of an identity that the set has and does not need any more; `None` if there are none.
    pub(crate) fn undesired(&self, set: &PodCliqueSet, children: &ObservedChildren) -> Option<Undesired> {
        let names = |names: Vec<String>, desired: Option<String>| -> BTreeSet<String> {
            names.into_iter().filter(|name| Some(name) != desired.as_ref()).collect()
        };
        let roles: Vec<String> = children.of_kind::<SlimRole>().map(|role| role.name_any()).collect();
        let bindings = children.of_kind::<SlimRoleBinding>().map(|binding| binding.name_any());
        let role = Self::role(set).map(String::from);
        let accounts = children.of_kind::<SlimServiceAccount>().map(|account| account.name_any()).collect();
        let secrets = children.of_kind::<SlimTokenSecret>().map(|secret| secret.name_any()).collect();
        let undesired = Undesired {
            roles: names(roles.into_iter().chain(bindings).collect(), role),
            accounts: names(accounts, self.account(set).map(String::from)),
            secrets: names(secrets, self.secret(set).map(String::from)),
        };
        (undesired != Undesired::default()).then_some(undesired)
    }

    /// The accounts that may read pods: that of the set, or those of its pods. While a pod may use a token of the set, so may its account. An account
    /// of another owner may not.
    pub(crate) fn readers(&self, set: &PodCliqueSet) -> BTreeSet<String> {
        let own = PodServiceAccountName::of_set(&name(set)).to_string();
        let own = Some(own).filter(|_| !self.is_account_foreign);
        match self.token {
            StartupToken::Secret => own.into_iter().collect(),
            StartupToken::Projected => {
                let of_pods = set.spec.template.cliques.iter().map(account_of_pods);
                of_pods.chain(own.filter(|_| self.is_in_use)).collect()
            }
        }
    }
}

/// The names of objects of an identity that a set does not need any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Undesired {
    /// Roles and their bindings.
    pub(crate) roles: BTreeSet<String>,
    /// Accounts.
    pub(crate) accounts: BTreeSet<String>,
    /// Secrets with tokens.
    pub(crate) secrets: BTreeSet<String>,
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

/// Whether one of the objects is an account. An orphan is adopted.
pub(crate) fn has_foreign_account(conflicts: &[NameConflict]) -> bool {
    let kind = SlimServiceAccount::kind(&());
    conflicts.iter().any(|conflict| conflict.target.resource.kind == kind && !is_adoptable(&conflict.metadata))
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
            let (identity, set) = (Identity { token, ..Identity::default() }, set("AnyOrder"));
            assert_eq!((Identity::role(&set), identity.account(&set), identity.secret(&set)), (None, None, None));
        }
    }

    #[test]
    fn the_readers_are_the_account_of_the_set_or_those_of_the_pods() {
        let set = set("InOrder");
        let identity = |token| Identity { token, ..Identity::default() };
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
        let in_use = Identity { is_in_use: true, ..identity(StartupToken::Projected) };
        assert!(in_use.readers(&set).contains("llm"), "pods with the earlier token");
        let foreign = Identity { is_account_foreign: true, ..identity(StartupToken::Secret) };
        assert_eq!(foreign.readers(&set), BTreeSet::new());
    }
}
