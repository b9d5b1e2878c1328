//! Why the pods of a clique with parents are not created. Pure.

use grove_api_types::conditions::available;
use grove_api_types::startup::IMAGE_VARIABLE;
use grove_api_types::text::join_names;
use grove_controller::plan::Waiting;

use super::observed::ObservedStartup;

/// The message has this many names; it only counts the others.
const MAX_NAMED: usize = 5;

/// Why no pod is created: the number of ready pods that a parent needs is unknown, or the image of the init container.
pub(crate) fn waiting(startup: &ObservedStartup) -> Option<Waiting> {
    let missing = startup.parents.iter().filter(|parent| parent.pods.is_none());
    let missing: Vec<_> = missing.map(|parent| parent.name.as_str()).collect();
    if !missing.is_empty() {
        let message = format!(
            "no pods are created until the PodCliques exist that they start after: {}",
            join_names(&missing, MAX_NAMED)
        );
        return Some(Waiting::new(available::STARTUP_DEPENDENCY_NOT_FOUND, message));
    }
    let needs_image = startup.init_container.image.is_none() && startup.awaited().next().is_some();
    needs_image.then(|| {
        let message = format!(
            "no pods are created, because the image of their init container is unknown: set --init-container-image or {IMAGE_VARIABLE} of \
             pclq-controller"
        );
        Waiting::new(available::INIT_CONTAINER_IMAGE_UNKNOWN, message)
    })
}
