//! The codes of `lastErrors`, as the wire format has them: one per kind of owner, kind of child, and what failed.

/// The code for a write to a child of the kind `child` that was refused to an owner of the kind `owner`. `verb` is that of
/// the request.
pub fn of_write(owner: &str, child: &str, verb: &str) -> &'static str {
    match (owner, child, verb) {
        (_, "Pod", "create") => "ERR_CREATE_POD",
        (_, "Pod", "delete") => "ERR_DELETE_POD",
        // Upstream changes pods only to ungate them; giving labels and owners back has no code there.
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
        _ => OTHER,
    }
}

/// For kinds that the wire format has no code for.
pub const OTHER: &str = "ERR_SYNC_CHILD";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_child_has_a_code_for_what_can_be_refused() {
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
        ] {
            let given = ["create", "patch", "delete"].map(|verb| of_write(owner, child, verb));
            assert_eq!(given, codes, "{child} of {owner}");
        }
    }
}
