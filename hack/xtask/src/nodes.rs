//! The nodes that KWOK plays the kubelets of: alike in size, spread over zones and racks.

use std::fmt::Write;

const NODES_PER_RACK: u32 = 4;
const RACKS_PER_ZONE: u32 = 2;

/// Manifests of `count` nodes.
pub(crate) fn manifests(count: u32) -> String {
    let mut text = String::new();
    for node in 0..count {
        let rack = node / NODES_PER_RACK;
        let zone = rack / RACKS_PER_ZONE;
        // Writing to a String cannot fail.
        _ = write!(
            text,
            "---\n\
             apiVersion: v1\n\
             kind: Node\n\
             metadata:\n  \
               name: node-{node}\n  \
               annotations:\n    kwok.x-k8s.io/node: fake\n  \
               labels:\n    \
                 kubernetes.io/arch: amd64\n    \
                 kubernetes.io/hostname: node-{node}\n    \
                 kubernetes.io/os: linux\n    \
                 topology.kubernetes.io/region: region-0\n    \
                 topology.kubernetes.io/zone: zone-{zone}\n    \
                 topology.grove.io/rack: rack-{rack}\n    \
                 type: kwok\n\
             status:\n  \
               capacity: &offer {{cpu: \"64\", memory: 512Gi, pods: \"200\", nvidia.com/gpu: \"8\"}}\n  \
               allocatable: *offer\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::manifests;

    #[test]
    fn nodes_are_spread_over_racks_and_zones() {
        let text = manifests(10);
        let last = text.rsplit("---\n").next().unwrap();
        let node: k8s_openapi::api::core::v1::Node = serde_saphyr::from_str(last).unwrap();
        assert_eq!(node.metadata.name.as_deref(), Some("node-9"));
        let labels = node.metadata.labels.unwrap();
        assert_eq!(labels["topology.grove.io/rack"], "rack-2");
        assert_eq!(labels["topology.kubernetes.io/zone"], "zone-1");
        let status = node.status.unwrap();
        assert_eq!(status.capacity, status.allocatable);
        assert_eq!(status.capacity.unwrap()["nvidia.com/gpu"].0, "8");
    }
}
