//! The authorizer: the users that may change managed objects.

use std::collections::BTreeSet;
use std::fmt::Write;

use grove_api_types::admission::{Attributes, Authorization, Operation, ParentSet, authorize};
use grove_test_support::rows::{ManagedRow, managed};
use serde_json::json;

/// The `ServiceAccounts` of Grove, and those that the configuration exempts.
const ACCOUNTS: [&str; 2] =
    ["system:serviceaccount:grove-system:pcs-controller", "system:serviceaccount:kube-system:job-controller"];

fn authorization(row: &ManagedRow) -> Authorization {
    let (new, old) = (row.new_object(), row.old_object());
    let (operation, new, old) = match row.operation.as_str() {
        "create" => (Operation::Create, Some(&new), None),
        "update" => (Operation::Update, Some(&new), Some(&old)),
        "delete" => (Operation::Delete, None, Some(&old)),
        "connect" => (Operation::Connect, Some(&new), None),
        other => panic!("unknown operation: {other}"),
    };
    let request = Attributes {
        operation,
        kind: &row.kind,
        resource: "team/serve-0-front",
        user: &row.user,
        object: new,
        old_object: old,
    };
    let parent = match row.parent.as_deref() {
        Some("absent") => ParentSet::NotFound,
        annotation => ParentSet::Found(annotation),
    };
    let accounts: BTreeSet<_> = ACCOUNTS.iter().map(ToString::to_string).collect();
    authorize(&request, parent, &accounts)
}

#[test]
fn each_row_has_the_expected_authorization() {
    let mut wrong = String::new();
    for row in managed() {
        let Authorization { denied, warnings } = authorization(&row);
        if (&denied, &warnings) != (&row.denied, &row.warnings) {
            let ManagedRow { case, operation, kind, .. } = &row;
            let result = json!({ "denied": denied, "warnings": warnings });
            write!(wrong, "managed: {operation} {kind}, {case}\n  {result}\n").expect("a write to a string");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
