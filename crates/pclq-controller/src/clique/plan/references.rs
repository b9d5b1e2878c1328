//! Why pods of the clique have no references in its gang. The reconciler of pod references writes them.

use grove_api_types::conditions::available;
use grove_api_types::deletion::is_terminating;
use grove_controller::plan::Waiting;

use crate::clique::observed::Observed;
use crate::observed::CliqueIdentity;

/// Why references to some of the retained pods are missing.
pub(super) fn waiting(observed: &Observed, identity: &CliqueIdentity, retained: usize) -> Option<Waiting> {
    let Some(gang) = observed.gang.as_deref().filter(|gang| !is_terminating(*gang)) else {
        return Some(gang_not_found(identity));
    };
    let name = observed.name();
    let Some(group) = gang.spec.podgroups.iter().find(|group| group.name == name.as_str()) else {
        return Some(group_not_found(identity, name.as_str()));
    };
    let omitted = retained.saturating_sub(group.pod_references.len());
    observed.max_references.filter(|_| omitted > 0).map(|max_references| too_many(identity, max_references, omitted))
}

fn gang_not_found(identity: &CliqueIdentity) -> Waiting {
    Waiting::new(available::POD_GANG_NOT_FOUND, format!("PodGang {} does not exist", identity.gang))
}

fn group_not_found(identity: &CliqueIdentity, clique: &str) -> Waiting {
    Waiting::new(available::POD_GROUP_NOT_FOUND, format!("PodGang {} has no podgroup {clique}", identity.gang))
}

fn too_many(identity: &CliqueIdentity, max_references: usize, omitted: usize) -> Waiting {
    let message = format!(
        "PodGang {} can have at most {max_references} pod references; {omitted} pods of the clique have no reference",
        identity.gang
    );
    Waiting::new(available::TOO_MANY_POD_REFERENCES, message)
}
