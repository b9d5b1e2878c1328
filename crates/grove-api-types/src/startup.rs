//! The start-up order of a set: what its services and the init container `grove-initc` agree on. Names, paths and arguments are those of the Go
//! operator.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::v1alpha1::{CliqueStartupType, PodCliqueSetTemplateSpec};

/// The name of the init container, of its program, and of its image.
pub const INIT_CONTAINER: &str = "grove-initc";
/// The environment variable with the image of the init container.
pub const IMAGE_VARIABLE: &str = "GROVE_INIT_CONTAINER_IMAGE";
/// The image of the init container of this release.
pub const DEFAULT_IMAGE: &str = concat!("localhost/grove/grove-initc:", env!("CARGO_PKG_VERSION"));

/// The name of the flag of the init container that has one [`Parent`] as its value.
pub const PARENT_FLAG: &str = "podcliques";

/// The volume with the token for the API server.
pub const TOKEN_VOLUME: &str = "sa-token-secret-vol";
/// The folder of [`TOKEN_VOLUME`] in the init container.
pub const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The file of [`TOKEN_VOLUME`] with the token.
pub const TOKEN_FILE: &str = "token";
/// The file of [`TOKEN_VOLUME`] with the certificate of the CA of the API server.
pub const CA_FILE: &str = "ca.crt";

/// The volume with what the init container has to know about its pod.
pub const POD_INFO_VOLUME: &str = "pod-info-vol";
/// The folder of [`POD_INFO_VOLUME`] in the init container.
pub const POD_INFO_DIR: &str = "/var/grove/pod-info";
/// The file of [`POD_INFO_VOLUME`] with the namespace of the pod.
pub const NAMESPACE_FILE: &str = "namespace";
/// The file of [`POD_INFO_VOLUME`] with the gang of the pod.
pub const GANG_FILE: &str = "podgangname";

/// Whether a clique of the set can wait for another one. Only such a set has a `ServiceAccount`, a `Role`, a `RoleBinding` and a token.
pub fn has_dependencies(template: &PodCliqueSetTemplateSpec) -> bool {
    match template.clique_startup_type {
        CliqueStartupType::AnyOrder => false,
        CliqueStartupType::InOrder => template.cliques.len() > 1,
        CliqueStartupType::Explicit => template.cliques.iter().any(|clique| !clique.spec.starts_after.is_empty()),
    }
}

/// The image with this name in the release of this version: a name without tag and digest gets the version as its tag, as in the Go operator.
/// `None` for an empty name.
pub fn image(name: &str, version: &str) -> Option<String> {
    let last = name.rsplit('/').next().unwrap_or_default();
    let is_complete = last.contains([':', '@']);
    (!name.is_empty()).then(|| if is_complete { name.to_owned() } else { format!("{name}:{version}") })
}

/// A clique that pods wait for, as an argument of the init container: `<PodClique>:<number of ready pods>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The name of the `PodClique`.
    pub clique: String,
    /// The number of its pods that must be ready: at least 1.
    pub min_ready: i32,
}

impl Display for Parent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.clique, self.min_ready)
    }
}

impl FromStr for Parent {
    type Err = String;

    /// Reads `<PodClique>:<number of ready pods>`. Spaces around the parts do not count.
    ///
    /// # Errors
    /// Which part is wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let [clique, count] = parts[..] else {
            return Err("expected <PodClique>:<number of ready pods>, with one colon".to_owned());
        };
        if clique.is_empty() {
            return Err("the name of the PodClique is empty".to_owned());
        }
        match count.parse() {
            Ok(min_ready) if min_ready > 0 => Ok(Self { clique: clique.to_owned(), min_ready }),
            Ok(count) => Err(format!("the number of ready pods must be positive, got {count}")),
            Err(_) => Err(format!("the number of ready pods must be an integer, got {count:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_has_dependencies_if_a_clique_can_wait_for_another_one() {
        let a = json!({ "name": "a", "spec": { "podSpec": {} } });
        let b = json!({ "name": "b", "spec": { "startsAfter": ["a"], "podSpec": {} } });
        for (startup, cliques, expected) in [
            ("AnyOrder", json!([a, b]), false),
            ("InOrder", json!([a]), false),
            ("InOrder", json!([a, b]), true),
            ("Explicit", json!([a]), false),
            ("Explicit", json!([a, b]), true),
        ] {
            let template = json!({ "cliqueStartupType": format!("CliqueStartupType{startup}"), "cliques": cliques });
            let template: PodCliqueSetTemplateSpec = serde_json::from_value(template).expect("a template");
            assert_eq!(has_dependencies(&template), expected, "{startup} {cliques}");
        }
    }

    #[test]
    fn an_image_without_a_tag_has_the_version() {
        for (name, expected) in [
            ("", None),
            ("grove-initc", Some("grove-initc:1.2.3")),
            ("registry:5000/grove-initc", Some("registry:5000/grove-initc:1.2.3")),
            ("registry:5000/grove-initc:v1", Some("registry:5000/grove-initc:v1")),
            ("grove-initc@sha256:abc", Some("grove-initc@sha256:abc")),
        ] {
            assert_eq!(image(name, "1.2.3").as_deref(), expected);
        }
    }

    #[test]
    fn an_argument_is_a_name_and_a_positive_number() {
        let parent = Parent { clique: "llm-0-a".to_owned(), min_ready: 3 };
        assert_eq!(parent.to_string().parse(), Ok(parent.clone()));
        assert_eq!(" llm-0-a : 3 ".parse(), Ok(parent));
        for (text, error) in [
            ("llm-0-a", "expected <PodClique>:<number of ready pods>, with one colon"),
            ("a:1:2", "expected <PodClique>:<number of ready pods>, with one colon"),
            (":1", "the name of the PodClique is empty"),
            ("a:", "the number of ready pods must be an integer, got \"\""),
            ("a:x", "the number of ready pods must be an integer, got \"x\""),
            ("a:0", "the number of ready pods must be positive, got 0"),
            ("a:-1", "the number of ready pods must be positive, got -1"),
        ] {
            assert_eq!(text.parse::<Parent>(), Err(error.to_owned()), "{text}");
        }
    }
}
