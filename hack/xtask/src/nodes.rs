//! Nodes whose kubelets KWOK simulates: all of one size, spread over zones, blocks and racks.

use std::fmt::Write;

const NODES_PER_RACK: u32 = 4;
const RACKS_PER_BLOCK: u32 = 2;
const BLOCKS_PER_ZONE: u32 = 2;

/// Manifests of `count` nodes.
pub(crate) fn manifests(count: u32) -> String {
    let mut text = String::new();
    for node in 0..count {
        let rack = node / NODES_PER_RACK;
        let block = rack / RACKS_PER_BLOCK;
        let zone = block / BLOCKS_PER_ZONE;
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
                 topology.grove.io/block: block-{block}\n    \
                 topology.grove.io/rack: rack-{rack}\n    \
                 type: kwok\n\
             status:\n  \
               capacity: &resources {{cpu: \"64\", memory: 512Gi, pods: \"200\", nvidia.com/gpu: \"8\"}}\n  \
               allocatable: *resources\n"
        );
    }
    text
}

/// The simulated nodes beyond the first `count`; `listed` is the output of `kubectl get nodes --output=name`.
pub(crate) fn surplus(listed: &str, count: u32) -> Vec<&str> {
    let number = |node: &str| node.strip_prefix("node/node-")?.parse::<u32>().ok();
    listed.lines().filter(|node| number(node).is_some_and(|number| number >= count)).collect()
}

#[cfg(test)]
mod tests {
    use super::{manifests, surplus};

    #[test]
    fn nodes_with_the_highest_numbers_are_surplus() {
        let listed = "node/node-0\nnode/node-1\nnode/node-10\nnode/node-2\nnode/foreign\n";
        assert_eq!(surplus(listed, 2), ["node/node-10", "node/node-2"]);
        assert!(surplus(listed, 11).is_empty());
    }

    #[test]
    fn nodes_are_spread_over_racks_blocks_and_zones() {
        let text = manifests(18);
        let last = text.rsplit("---\n").next().unwrap();
        let node: k8s_openapi::api::core::v1::Node = serde_saphyr::from_str(last).unwrap();
        assert_eq!(node.metadata.name.as_deref(), Some("node-17"));
        let labels = node.metadata.labels.unwrap();
        assert_eq!(labels["topology.grove.io/rack"], "rack-4");
        assert_eq!(labels["topology.grove.io/block"], "block-2");
        assert_eq!(labels["topology.kubernetes.io/zone"], "zone-1");
        let status = node.status.unwrap();
        assert_eq!(status.capacity, status.allocatable);
        assert_eq!(status.capacity.unwrap()["nvidia.com/gpu"].0, "8");
    }
}
