//! The codes of `lastErrors`, as in the Go operator: they depend on the kind of the owner, the kind of the child and the verb.
//!
//! The entries of a set and a group come from `children/rejections.rs` of pcs-controller, those of a clique from
//! `BackedOffCreates::last_errors` in `create_backoff.rs` of grove-controller.

/// The code for a rejected write to a child of the kind `child`, which an owner of the kind `owner` controls. `verb` is the verb of
/// the request.
pub fn for_write(owner: &str, child: &str, verb: &str) -> &'static str {
    match (owner, child, verb) {
        (_, "Pod", "create") => "ERR_CREATE_POD",
        (_, "Pod", "delete") => "ERR_DELETE_POD",
        // The Go operator patches pods only to remove their gates, and has no code for adoption and for restored labels.
        (_, "Pod", _) => "ERR_UPDATE_POD",
        (_, "PodClique", "delete") => "ERR_DELETE_PODCLIQUE",
        ("PodCliqueScalingGroup", "PodClique", "create") => "ERR_CREATE_PODCLIQUE",
        ("PodCliqueScalingGroup", "PodClique", _) => "ERR_CREATE_OR_UPDATE_PODCLIQUES",
        (_, "PodClique", _) => "ERR_CREATE_OR_UPDATE_PODCLIQUE",
        (_, "PodCliqueScalingGroup", "create") => "ERR_CREATE_PODCLIQUESCALINGGROUP",
        (_, "PodCliqueScalingGroup", "delete") => "ERR_DELETE_PODCLIQUESCALINGGROUP",
        (_, "PodCliqueScalingGroup", _) => "ERR_SYNC_PODCLIQUESCALINGGROUP",
        (_, "PodGang", "delete") => "ERR_DELETE_EXCESS_PODGANG",
        (_, "PodGang", _) => "ERR_CREATE_OR_PATCH_PODGANG",
        (_, "Service", "delete") => "ERR_DELETE_PODCLIQUESET_SERVICE",
        (_, "Service", _) => "ERR_SYNC_PODCLIQUESET_SERVICE",
        (_, "HorizontalPodAutoscaler", "delete") => "ERR_DELETE_HPA",
        (_, "HorizontalPodAutoscaler", _) => "ERR_SYNC_HPA",
        (_, "ServiceAccount", "delete") => "ERR_DELETE_SERVICEACCOUNT",
        (_, "ServiceAccount", _) => "ERR_SYNC_SERVICEACCOUNT",
        (_, "Role", "delete") => "ERR_DELETE_ROLE",
        (_, "Role", _) => "ERR_SYNC_ROLE",
        (_, "RoleBinding", "delete") => "ERR_DELETE_ROLEBINDING",
        (_, "RoleBinding", _) => "ERR_SYNC_ROLEBINDING",
        (_, "Secret", "delete") => "ERR_DELETE_SECRET",
        // The Go operator never changes a token.
        (_, "Secret", _) => "ERR_CREATE_SECRET",
        ("PodCliqueSet", "ResourceClaim", "delete") => "ERR_DELETE_PCS_RESOURCE_CLAIM",
        ("PodCliqueSet", "ResourceClaim", _) => "ERR_SYNC_PCS_RESOURCE_CLAIM",
        ("PodClique", "ResourceClaim", "delete") => "ERR_DELETE_PCLQ_RESOURCE_CLAIM",
        ("PodClique", "ResourceClaim", _) => "ERR_SYNC_PCLQ_RESOURCE_CLAIM",
        // The Go operator has no code for deletes of claims of scaling groups.
        (_, "ResourceClaim", _) => "ERR_SYNC_PCSG_RESOURCE_CLAIM",
        _ => ERR_SYNC_CHILD,
    }
}

/// The code for an annotation that another service writes and that cannot be read. The Go operator has no such annotations.
pub const ERR_UNREADABLE_ANNOTATION: &str = "ERR_UNREADABLE_ANNOTATION";

/// The code for kinds without a code in the Go operator.
pub const ERR_SYNC_CHILD: &str = "ERR_SYNC_CHILD";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_child_kind_has_a_code_for_each_rejected_write() {
        for (owner, child, codes) in [
            ("PodClique", "Pod", ["ERR_CREATE_POD", "ERR_UPDATE_POD", "ERR_DELETE_POD"]),
            (
                "PodClique",
                "PodGang",
                ["ERR_CREATE_OR_PATCH_PODGANG", "ERR_CREATE_OR_PATCH_PODGANG", "ERR_DELETE_EXCESS_PODGANG"],
            ),
            (
                "PodCliqueSet",
                "PodClique",
                ["ERR_CREATE_OR_UPDATE_PODCLIQUE", "ERR_CREATE_OR_UPDATE_PODCLIQUE", "ERR_DELETE_PODCLIQUE"],
            ),
            (
                "PodCliqueScalingGroup",
                "PodClique",
                ["ERR_CREATE_PODCLIQUE", "ERR_CREATE_OR_UPDATE_PODCLIQUES", "ERR_DELETE_PODCLIQUE"],
            ),
            (
                "PodCliqueSet",
                "PodCliqueScalingGroup",
                [
                    "ERR_CREATE_PODCLIQUESCALINGGROUP",
                    "ERR_SYNC_PODCLIQUESCALINGGROUP",
                    "ERR_DELETE_PODCLIQUESCALINGGROUP",
                ],
            ),
            (
                "PodCliqueSet",
                "Service",
                ["ERR_SYNC_PODCLIQUESET_SERVICE", "ERR_SYNC_PODCLIQUESET_SERVICE", "ERR_DELETE_PODCLIQUESET_SERVICE"],
            ),
            ("PodCliqueSet", "HorizontalPodAutoscaler", ["ERR_SYNC_HPA", "ERR_SYNC_HPA", "ERR_DELETE_HPA"]),
            (
                "PodCliqueSet",
                "ServiceAccount",
                ["ERR_SYNC_SERVICEACCOUNT", "ERR_SYNC_SERVICEACCOUNT", "ERR_DELETE_SERVICEACCOUNT"],
            ),
            ("PodCliqueSet", "Role", ["ERR_SYNC_ROLE", "ERR_SYNC_ROLE", "ERR_DELETE_ROLE"]),
            ("PodCliqueSet", "RoleBinding", ["ERR_SYNC_ROLEBINDING", "ERR_SYNC_ROLEBINDING", "ERR_DELETE_ROLEBINDING"]),
            ("PodCliqueSet", "Secret", ["ERR_CREATE_SECRET", "ERR_CREATE_SECRET", "ERR_DELETE_SECRET"]),
            (
                "PodCliqueSet",
                "ResourceClaim",
                ["ERR_SYNC_PCS_RESOURCE_CLAIM", "ERR_SYNC_PCS_RESOURCE_CLAIM", "ERR_DELETE_PCS_RESOURCE_CLAIM"],
            ),
            ("PodCliqueScalingGroup", "ResourceClaim", ["ERR_SYNC_PCSG_RESOURCE_CLAIM"; 3]),
            (
                "PodClique",
                "ResourceClaim",
                ["ERR_SYNC_PCLQ_RESOURCE_CLAIM", "ERR_SYNC_PCLQ_RESOURCE_CLAIM", "ERR_DELETE_PCLQ_RESOURCE_CLAIM"],
            ),
        ] {
            let actual = ["create", "patch", "delete"].map(|verb| for_write(owner, child, verb));
            assert_eq!(actual, codes, "{child} of {owner}");
        }
    }
}
