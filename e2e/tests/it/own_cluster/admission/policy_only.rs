//! Updates of stored sets, valid or not, under the admission policy alone.

use std::collections::BTreeSet;

use kube::Client;

use crate::it::own_cluster::dry_run::{Case, run_cases};
use crate::it::policy::{DENIED, Policy};
use grove_test_support::rows::{Operations, Row, RowFacts};

/// Updates of sets that depend only on the set, as the policy can validate them.
#[derive(Default)]
pub(super) struct PolicyCases(Vec<(&'static Row, Case)>);

impl PolicyCases {
    /// Adds the cases of a row, if the policy can validate them and the CRD does not reject them.
    pub(super) fn add(&mut self, row: &'static Row, cases: &[Case]) {
        let is_set = row.object == "set" && row.facts == RowFacts::default();
        if is_set && row.operations == Operations::Update && row.crd_errors.is_empty() {
            self.0.extend(cases.iter().map(|case| (row, Case { warnings: vec![], ..case.clone() })));
        }
    }

    /// Runs the cases while the policy is installed and no webhook is registered; the result is the list of failures.
    pub(super) async fn run(self, client: &Client) -> Vec<String> {
        let policy = Policy::install(client, None).await;
        let (mut denied, mut accepted, mut accepted_rules) = (vec![], vec![], BTreeSet::new());
        for (row, case) in self.0.into_iter().filter(|(row, _)| policy.covered().contains(row.rule.as_str())) {
            if row.errors.is_empty() {
                accepted_rules.insert(row.rule.as_str());
                accepted.push(case);
            } else {
                denied.push(Case { crd_error: vec![format!("{DENIED}{}: ", row.rule)], ..case });
            }
        }
        assert_eq!(accepted_rules, policy.covered(), "each rule of the policy has an update that it accepts");
        // The denied cases come first: when they pass, the API server enforces the policy for the accepted ones.
        let mut failures = run_cases(client, denied).await;
        failures.extend(run_cases(client, accepted).await);
        policy.remove().await;
        failures.into_iter().map(|failure| format!("policy alone: {failure}")).collect()
    }
}
