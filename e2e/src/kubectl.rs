//! kubectl, as users run it.

use grove_dev_harness::kubectl::{Error, Kubectl};

use crate::plane::Plane;

/// Runs kubectl as cluster admin against the shared plane, with a discovery cache of its own. `input` is its standard
/// input. Returns its standard output, or its error output if it fails.
///
/// # Panics
/// When kubectl cannot be run.
pub async fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    kubectl_on(&Plane::shared(), arguments, input).await
}

/// The same, against another plane.
///
/// # Panics
/// When kubectl cannot be run.
pub async fn kubectl_on(plane: &Plane, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut kubectl = Kubectl::new(&plane.dir().join("kubectl"), plane.dir());
    kubectl.discovery_cache = plane.dir().join("kubectl-cache-of-users");
    kubectl.run_with_input(arguments, input).await.map_err(|error| match error {
        Error::Failed { stderr, .. } => stderr,
        Error::Run { program, source } => panic!("cannot run {}: {source}", program.display()),
    })
}
