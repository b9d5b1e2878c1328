//! The set with a scaling group that the tests of several reconcilers share.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The example of the wire format: `f` is a standalone clique, `p` and `d` scale together.
pub(crate) const GROUPED: &str = r"
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: m, namespace: prod, uid: u-set, generation: 3}
spec:
  replicas: 1
  template:
    cliqueStartupType: CliqueStartupTypeInOrder
    cliques:
    - name: f
      spec:
        roleName: f
        replicas: 2
        minAvailable: 1
        autoScalingConfig: {minReplicas: 1, maxReplicas: 4}
        podSpec: {containers: [{name: c}]}
    - {name: p, spec: {roleName: p, replicas: 1, podSpec: {containers: [{name: c, env: [{name: OWN, value: $(GROVE_PCSG_NAME)}, {name: GROVE_PCSG_INDEX, value: mine}]}]}}}
    - {name: d, labels: {team: x}, spec: {roleName: d, replicas: 3, minAvailable: 2, podSpec: {containers: [{name: c}]}}}
    podCliqueScalingGroups:
    - name: g
      cliqueNames: [p, d]
      replicas: 3
      minAvailable: 1
      scaleConfig:
        minReplicas: 2
        maxReplicas: 8
        metrics:
        - {type: Pods, pods: {metric: {name: queue}, target: {type: AverageValue, averageValue: 1500m}}}
";

/// The object that the text describes.
pub(crate) fn yaml<K: DeserializeOwned>(text: &str) -> K {
    let value: Value = serde_saphyr::from_str(text).expect("YAML");
    serde_json::from_value(value).expect("an object of the kind")
}
