//! Changes of what is stored, mistakes and all, judged by the admission policy alone.

use std::collections::BTreeSet;

use kube::Client;

use crate::it::own_cluster::dry_run::{Asked, play};
use crate::it::policy::{DENIED, Policy};
use grove_test_support::rows::{Known, On, Row};

/// Changes of sets that depend on nothing else, as a policy may be asked about them.
#[derive(Default)]
pub(super) struct Changes(Vec<(&'static Row, Asked)>);

impl Changes {
    /// Keeps the questions of a row, if it is one that a policy can answer and the definition does not.
    pub(super) fn keep(&mut self, row: &'static Row, asked: &[Asked]) {
        let is_set = row.object == "set" && row.facts == Known::default();
        if is_set && row.on == On::Update && row.definition.is_empty() {
            self.0.extend(asked.iter().map(|asked| (row, Asked { warned: vec![], ..asked.clone() })));
        }
    }

    /// The answers that differ, while the policy is in force and nobody else judges.
    pub(super) async fn judge(self, client: &Client) -> Vec<String> {
        let policy = Policy::install(client, None).await;
        let (mut refused, mut accepted, mut passed) = (vec![], vec![], BTreeSet::new());
        for (row, asked) in self.0.into_iter().filter(|(row, _)| policy.covered().contains(row.rule.as_str())) {
            if row.refused.is_empty() {
                passed.insert(row.rule.as_str());
                accepted.push(asked);
            } else {
                refused.push(Asked { definition: vec![format!("{DENIED}{}: ", row.rule)], ..asked });
            }
        }
        assert_eq!(passed, policy.covered(), "each rule of the policy has a change that it lets pass");
        // First what is refused: then the server has heard of the policy when it is to let something pass.
        let mut wrong = play(client, refused).await;
        wrong.extend(play(client, accepted).await);
        policy.remove().await;
        wrong.into_iter().map(|wrong| format!("by the policy alone: {wrong}")).collect()
    }
}
