//! The table of permissions has a row for each granted permission, and the row names a test that uses the permission.

use super::{documents::test_names, tree};
use std::{collections::BTreeSet, fs};
use xtask::permissions::{Access, granted_to_all};

const PAGE: &str = "docs/permissions.md";

/// A row is `| service | resource.group | verb, verb | `test`: reason |`; a resource of the core group has no dot.
fn violations(page: &str, granted: &BTreeSet<Access>, tests: &BTreeSet<String>) -> Vec<String> {
    let (mut violations, mut listed) = (Vec::new(), BTreeSet::new());
    let rows = page.lines().enumerate().filter(|(_, line)| line.starts_with('|')).skip(2);
    for (at, row) in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [service, resource, verbs, proof] = cells[..] else {
            violations.push(format!("{PAGE}:{}: not four cells", at + 1));
            continue;
        };
        let test = proof.split('`').nth(1).unwrap_or_default();
        if !tests.contains(test) {
            violations.push(format!("{PAGE}:{}: there is no test {test:?}", at + 1));
        }
        listed.extend(verbs.split(", ").map(|verb| access(service, resource, verb)));
    }
    let missing = granted.difference(&listed).map(|access| format!("{PAGE}: no row for {access}"));
    let surplus = listed.difference(granted).map(|access| format!("{PAGE}: no rule grants {access}"));
    violations.into_iter().chain(missing).chain(surplus).collect()
}

fn access(service: &str, resource: &str, verb: &str) -> Access {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    Access { account: service.into(), verb: verb.into(), group: group.into(), resource: resource.into() }
}

#[test]
fn every_permission_names_a_test_that_uses_it() {
    let page = fs::read_to_string(tree::root().join(PAGE)).unwrap();
    let granted = granted_to_all();
    tree::assert_none(&violations(&page, &granted, &test_names(&tree::sources())));
}

#[test]
fn a_permission_without_its_row_is_found() {
    let granted = BTreeSet::from([access("svc", "pods", "get"), access("svc", "gangs/status.a.io", "patch")]);
    let tests = BTreeSet::from(["it_reads".to_owned()]);
    let page = |rows: &str| format!("| service | resource | verbs | used by |\n|---|---|---|---|\n{rows}");
    let whole = "| svc | pods | get | `it_reads` |\n| svc | gangs/status.a.io | patch | `it_reads`: at once |\n";
    tree::assert_none(&violations(&page(whole), &granted, &tests));
    let lacking = "| svc | pods | get | `it_reads` |\n";
    tree::assert_one(&violations(&page(lacking), &granted, &tests), "no row for svc: patch gangs");
    let surplus = whole.replace("get", "get, list");
    tree::assert_one(&violations(&page(&surplus), &granted, &tests), "no rule grants svc: list pods");
    tree::assert_one(
        &violations(&page(&whole.replace("`it_reads` |", "`missing` |")), &granted, &tests),
        "no test \"missing\"",
    );
}
