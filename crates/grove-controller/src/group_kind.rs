//! The group and the kind of a child: two groups may have a kind of the same name. The text is that of apimachinery's `GroupKind`.

use kube::{Resource, core::ApiResource};

/// The group and the kind of a resource: `Deployment.apps`, or `Pod` in the core group.
pub fn group_kind(resource: &ApiResource) -> String {
    text(&resource.group, &resource.kind)
}

/// The group and the kind of a type.
pub fn group_kind_of<K: Resource<DynamicType = ()>>() -> String {
    text(&K::group(&()), &K::kind(&()))
}

/// Whether the resource has this group and kind.
pub fn is_of_group_kind(resource: &ApiResource, group_kind: &str) -> bool {
    let group = group_kind.strip_prefix(resource.kind.as_str());
    group.is_some_and(|group| group.strip_prefix('.').unwrap_or(group) == resource.group)
}

fn text(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { [kind, group].join(".") }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};

    use super::*;

    #[test]
    fn the_text_identifies_group_and_kind() {
        let (pod, deployment) = (ApiResource::erase::<Pod>(&()), ApiResource::erase::<Deployment>(&()));
        assert_eq!([group_kind(&pod), group_kind_of::<Deployment>()], ["Pod", "Deployment.apps"]);
        assert!(is_of_group_kind(&pod, "Pod") && is_of_group_kind(&deployment, "Deployment.apps"));
        for other in ["Deployment", "Deployment.", "Deployment.extensions", "Deploymentapps.x", "Pod"] {
            assert!(!is_of_group_kind(&deployment, other), "{other}");
        }
        assert!(!is_of_group_kind(&pod, "Pod.metrics.k8s.io"));
    }
}
