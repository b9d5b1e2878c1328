//! The `PodCliqueSet`s that tests create.

use crate::namespace_state::{NamespaceState, is_ready};

/// A set of three cliques: a frontend, two prefill pods and two decode pods.
pub fn three_cliques(name: &str, replicas: i32) -> String {
    three_cliques_with_behaviour("", "", name, replicas)
}

/// Like [`three_cliques`], but the simulated kubelets give the pods of one clique this behaviour.
pub fn three_cliques_with_behaviour(role: &str, behaviour: &str, name: &str, replicas: i32) -> String {
    let clique = |name: &str, replicas: i32| {
        let annotations = if name == role { format!("test.grove.io/behaviour: {behaviour}") } else { String::new() };
        format!(
            "
    - name: {name}
      annotations: {{{annotations}}}
      spec:
        roleName: {name}
        replicas: {replicas}
        minAvailable: 1
        podSpec:
          containers:
          - {{name: main, image: registry.k8s.io/pause:3.10, resources: {{requests: {{cpu: 10m}}}}}}"
        )
    };
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: {name}
spec:
  replicas: {replicas}
  template:
    cliques:{}{}{}
",
        clique("frontend", 1),
        clique("prefill", 2),
        clique("decode", 2)
    )
}

/// A set with the standalone clique `f` and the scaling group `g` of the cliques `p` and `d`: the worked example of the wire
/// format. `f_pod_spec` is prepended to the pod spec of `f`.
pub fn with_scaling_group(name: &str, replicas: i32, f_pod_spec: &str) -> String {
    let containers = "containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 10m}}}]";
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  template:
    cliques:
    - name: f
      spec:
        roleName: f
        replicas: 2
        minAvailable: 1
        autoScalingConfig: {{maxReplicas: 4}}
        podSpec: {{{f_pod_spec}{containers}}}
    - {{name: p, spec: {{roleName: p, replicas: 1, minAvailable: 1, podSpec: {{{containers}}}}}}}
    - {{name: d, spec: {{roleName: d, replicas: 3, minAvailable: 2, podSpec: {{{containers}}}}}}}
    podCliqueScalingGroups:
    - name: g
      cliqueNames: [p, d]
      replicas: 3
      minAvailable: 1
      scaleConfig:
        minReplicas: 2
        maxReplicas: 8
        metrics:
        - {{type: Pods, pods: {{metric: {{name: queue}}, target: {{type: AverageValue, averageValue: 1500m}}}}}}
"
    )
}

/// Whether the set `llm` of [`three_cliques`] is available with this many replicas, all pods are ready, and there are no
/// others.
pub fn three_cliques_are_ready(state: &NamespaceState, replicas: usize) -> bool {
    state.is_available("llm")
        && state.cliques.len() == replicas * 3
        && state.pods.len() == replicas * 5
        && state.active_pods().filter(|pod| is_ready(pod)).count() == replicas * 5
}
