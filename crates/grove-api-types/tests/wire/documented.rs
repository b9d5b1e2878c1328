//! The statements of the wire format, from `kinds/`, `types.yaml` and `pod_spec.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Statements, folder, read};

/// The fields of a type or a kind: for each path the statements, joined by commas.
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

/// The types of Kubernetes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KubernetesTypes {
    known: Vec<String>,
    fields: Fields,
    #[serde(rename = "claim template")]
    claim_template: Fields,
}

pub(crate) fn statements() -> Statements {
    let KubernetesTypes { known, fields, claim_template } = read(&folder().join("pod_spec.yaml"));
    let known = known.into_iter().map(|field| (format!("PodSpec {field}"), "known".to_owned()));
    let fields = fields.into_iter().map(|(path, statement)| (format!("PodSpec {path}"), statement));
    let template = claim_template.into_iter().map(|(path, statement)| (format!("ClaimTemplate {path}"), statement));
    let types: BTreeMap<String, Fields> = read(&folder().join("types.yaml"));
    let files = std::fs::read_dir(folder().join("kinds")).expect("there are kinds");
    let kinds = files.map(|file| read::<Kind>(&file.expect("a file").path()));
    kinds.flat_map(|kind| kind.statements(&types)).chain(known).chain(fields).chain(template).collect()
}

impl Kind {
    fn statements(self, types: &BTreeMap<String, Fields>) -> Vec<(String, String)> {
        let Self { group, version, name: kind, plural, singular, short_names, scope, scale, status, columns, fields } =
            self;
        let mut all = vec![
            (kind.clone(), format!("is {plural}, {singular} of {group}/{version}, {scope}")),
            (kind.clone(), format!("short names {short_names:?}")),
            (kind.clone(), format!("status {status}")),
            (kind.clone(), format!("scale {scale}")),
        ];
        all.extend(columns.iter().enumerate().map(|(at, column)| (kind.clone(), format!("column {at} {column}"))));
        for (path, statements) in fields {
            expand(&mut all, &format!("{kind} {path}"), &statements, types);
        }
        all
    }
}

/// Adds the statements about a field. A type adds the statements about its fields.
fn expand(all: &mut Vec<(String, String)>, path: &str, statements: &str, types: &BTreeMap<String, Fields>) {
    for statement in statements.split(", ") {
        let Some(fields) = types.get(statement) else {
            all.push((path.to_owned(), sorted(statement)));
            continue;
        };
        for (field, statements) in fields {
            expand(all, &[path, field].concat(), statements, types);
        }
    }
}

/// The statement with the values of an enumeration in alphabetical order.
fn sorted(statement: &str) -> String {
    let Some(values) = statement.strip_prefix("one of ") else { return statement.to_owned() };
    let mut values: Vec<_> = values.split(' ').collect();
    values.sort_unstable();
    format!("one of {}", values.join(" "))
}
