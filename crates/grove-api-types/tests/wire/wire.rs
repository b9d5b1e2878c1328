//! The wire format, read from `kinds/` and `shapes.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Statements, folder, read};

/// Fields of a shape or a kind: path to what is said of it, joined by commas.
type Fields = BTreeMap<String, String>;

/// One kind of the wire format.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    group: String,
    version: String,
    #[serde(rename = "kind")]
    name: String,
    plural: String,
    singular: String,
    #[serde(rename = "short names")]
    short_names: Vec<String>,
    scope: String,
    scale: String,
    status: String,
    columns: Vec<String>,
    fields: Fields,
}

/// The parts whose type is Kubernetes' own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Foreign {
    known: Vec<String>,
    fields: Fields,
    #[serde(rename = "claim template")]
    claim_template: Fields,
}

/// All that the wire format states.
pub(crate) fn statements() -> Statements {
    let Foreign { known, fields, claim_template } = read(&folder().join("pod_spec.yaml"));
    let known = known.into_iter().map(|field| (format!("PodSpec {field}"), "known".to_owned()));
    let fields = fields.into_iter().map(|(path, said)| (format!("PodSpec {path}"), said));
    let template = claim_template.into_iter().map(|(path, said)| (format!("ClaimTemplate {path}"), said));
    let shapes: BTreeMap<String, Fields> = read(&folder().join("shapes.yaml"));
    let files = std::fs::read_dir(folder().join("kinds")).expect("there are kinds");
    let kinds = files.map(|file| read::<Kind>(&file.expect("a file").path()));
    kinds.flat_map(|kind| kind.statements(&shapes)).chain(known).chain(fields).chain(template).collect()
}

impl Kind {
    fn statements(self, shapes: &BTreeMap<String, Fields>) -> Vec<(String, String)> {
        let Self { group, version, name: kind, plural, singular, short_names, scope, scale, status, columns, fields } =
            self;
        let mut all = vec![
            (kind.clone(), format!("is {plural}, {singular} of {group}/{version}, {scope}")),
            (kind.clone(), format!("short names {short_names:?}")),
            (kind.clone(), format!("status {status}")),
            (kind.clone(), format!("scale {scale}")),
        ];
        all.extend(columns.iter().enumerate().map(|(at, column)| (kind.clone(), format!("column {at} {column}"))));
        for (path, said) in fields {
            expand(&mut all, &format!("{kind} {path}"), &said, shapes);
        }
        all
    }
}

/// What is said of a field; a shape says it of the fields within, too.
fn expand(all: &mut Vec<(String, String)>, path: &str, said: &str, shapes: &BTreeMap<String, Fields>) {
    for statement in said.split(", ") {
        let Some(shape) = shapes.get(statement) else {
            all.push((path.to_owned(), in_order(statement)));
            continue;
        };
        for (field, said) in shape {
            expand(all, &[path, field].concat(), said, shapes);
        }
    }
}

/// Values of an enumeration, in whichever order they were written.
fn in_order(statement: &str) -> String {
    let Some(values) = statement.strip_prefix("one of ") else { return statement.to_owned() };
    let mut values: Vec<_> = values.split(' ').collect();
    values.sort_unstable();
    format!("one of {}", values.join(" "))
}
