//! Who may change what Grove manages.

use std::collections::BTreeSet;
use std::fmt::Write;

use grove_api_types::admission::{Attributes, Authorization, Operation, ParentSet, authorize};
use grove_test_support::rows::{ManagedRow, managed};
use serde_json::json;

/// The accounts of Grove, and those that the configuration exempts.
const ACCOUNTS: [&str; 2] =
    ["system:serviceaccount:grove-system:pcs-controller", "system:serviceaccount:kube-system:job-controller"];

fn answer(row: &ManagedRow) -> Authorization {
    let (new, old) = (row.new_object(), row.old_object());
    let (operation, new, old) = match row.operation.as_str() {
        "create" => (Operation::Create, Some(&new), None),
        "update" => (Operation::Update, Some(&new), Some(&old)),
        "delete" => (Operation::Delete, None, Some(&old)),
        "connect" => (Operation::Connect, Some(&new), None),
        other => panic!("nobody can {other}"),
    };
    let request = Attributes {
        operation,
        kind: &row.kind,
        resource: "team/serve-0-front",
        user: &row.user,
        object: new,
        old_object: old,
    };
    let parent = match row.set.as_deref() {
        Some("absent") => ParentSet::NotFound,
        annotation => ParentSet::Found(annotation),
    };
    let accounts: BTreeSet<_> = ACCOUNTS.iter().map(ToString::to_string).collect();
    authorize(&request, parent, &accounts)
}

#[test]
fn every_request_gets_its_answer() {
    let mut wrong = String::new();
    for row in managed() {
        let Authorization { denied, warnings } = answer(&row);
        if (&denied, &warnings) != (&row.denied, &row.warned) {
            let ManagedRow { case, operation, kind, .. } = &row;
            let answer = json!({ "denied": denied, "warned": warnings });
            write!(wrong, "managed: {operation} {kind}, {case}\n  {answer}\n").expect("a text takes more");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
