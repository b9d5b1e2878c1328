//! The flags and environment variables. pclq-controller sets the parents, and Kubernetes the address of the API server.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use grove_api_types::startup::{POD_INFO_DIR, Parent, TOKEN_DIR};

/// Waits until enough pods of other PodCliques of the gang are ready.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// A PodClique to wait for, and the number of its pods that must be ready. Repeat the flag for several PodCliques, or separate them by commas.
    #[arg(short, long, value_name = "PODCLIQUE:COUNT", value_delimiter = ',')]
    pub podcliques: Vec<MaybeParent>,

    /// Folder with the token for the API server and the certificate of its CA.
    #[arg(long, default_value = TOKEN_DIR, value_name = "DIR")]
    pub token_dir: PathBuf,

    /// Folder with the namespace and the gang of the pod.
    #[arg(long, default_value = POD_INFO_DIR, value_name = "DIR")]
    pub pod_info_dir: PathBuf,

    /// Host of the API server.
    #[arg(long, env = "KUBERNETES_SERVICE_HOST")]
    pub api_server_host: String,

    /// Port of the API server.
    #[arg(long, env = "KUBERNETES_SERVICE_PORT")]
    pub api_server_port: u16,
}

/// A parent; `None` for an empty value, which has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaybeParent(pub Option<Parent>);

impl FromStr for MaybeParent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parent = (!text.trim().is_empty()).then(|| text.parse()).transpose()?;
        Ok(Self(parent))
    }
}

impl Args {
    /// The parents. Of several with the same name, the last one counts.
    pub fn parents(&self) -> Vec<Parent> {
        let mut parents: Vec<Parent> = Vec::new();
        for parent in self.podcliques.iter().filter_map(|parent| parent.0.as_ref()) {
            parents.retain(|other| other.clique != parent.clique);
            parents.push(parent.clone());
        }
        parents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Vec<String>, String> {
        let server = ["--api-server-host", "10.0.0.1", "--api-server-port", "443"];
        let arguments = ["grove-initc"].into_iter().chain(server).chain(arguments.iter().copied());
        let args = Args::try_parse_from(arguments).map_err(|error| error.to_string())?;
        Ok(args.parents().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn parents_are_read_from_repeated_and_from_separated_values() {
        for arguments in [
            &["--podcliques=x-0-a:1", "--podcliques=x-0-b:2"][..],
            &["-p", "x-0-a:1", "-p", " x-0-b : 2 "],
            &["--podcliques=x-0-a:1,x-0-b:2"],
            &["--podcliques=", "--podcliques=x-0-b:7", "--podcliques=x-0-a:1, ,x-0-b:2"],
        ] {
            assert_eq!(parse(arguments), Ok(vec!["x-0-a:1".to_owned(), "x-0-b:2".to_owned()]), "{arguments:?}");
        }
        assert_eq!(parse(&[]), Ok(vec![]));
    }

    #[test]
    fn a_wrong_parent_is_an_error_with_the_value() {
        let error = parse(&["--podcliques=x-0-a:0"]).unwrap_err();
        for part in ["invalid value 'x-0-a:0'", "--podcliques", "the number of ready pods must be positive, got 0"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
