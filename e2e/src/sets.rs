//! The sets that tests create.

use crate::world::{World, is_ready};

/// A set of three cliques: a frontend, two prefill pods and two decode pods.
pub fn three_cliques(name: &str, replicas: i32) -> String {
    three_cliques_of_which("", "", name, replicas)
}

/// The same, of which the pods of one clique behave in a way that the simulated kubelets know.
pub fn three_cliques_of_which(which: &str, behaves: &str, name: &str, replicas: i32) -> String {
    let clique = |role: &str, replicas: i32| {
        let annotations = if role == which { format!("test.grove.io/behaviour: {behaves}") } else { String::new() };
        format!(
            "
    - name: {role}
      annotations: {{{annotations}}}
      spec:
        roleName: {role}
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

/// A set with a standalone clique and a scaling group of two: the worked example of the wire format. `of_f` is added to the
/// pod spec of the standalone clique.
pub fn grouped(name: &str, replicas: i32, of_f: &str) -> String {
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
        podSpec: {{{of_f}{containers}}}
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

/// Whether the set `llm` of [`three_cliques`] serves with so many replicas, and nothing else is there.
pub fn three_cliques_serve(world: &World, replicas: usize) -> bool {
    world.is_available("llm")
        && world.cliques.len() == replicas * 3
        && world.pods.len() == replicas * 5
        && world.live_pods().filter(|pod| is_ready(pod)).count() == replicas * 5
}
