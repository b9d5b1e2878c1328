//! The sets that tests create.

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
          - {{name: main, image: registry.example/llm:1, resources: {{requests: {{cpu: 10m}}}}}}"
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
