//! The defaults of a `PodCliqueSet` and a `PodClique`, applied to whatever was stored.

use serde_json::{Value, json};

use crate::core::{PodCliqueSet, PodCliqueSpec};

/// Seconds a pod gets to end when its template says nothing: Kubernetes' own default.
const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;

/// A set with every default filled in. Applying it twice changes nothing more.
pub fn pod_clique_set(set: &PodCliqueSet) -> PodCliqueSet {
    let mut set = set.clone();
    let template = &mut set.spec.template;
    template.headless_service_config.get_or_insert_default();
    for clique in &mut template.cliques {
        pod_clique_spec(&mut clique.spec);
    }
    set
}

/// Fills in the defaults of a clique: one replica, all of them needed, and the pod's restart policy and grace period.
pub fn pod_clique_spec(spec: &mut PodCliqueSpec) {
    if spec.replicas == 0 {
        spec.replicas = 1;
    }
    spec.min_available.get_or_insert(spec.replicas);
    let blank =
        |value: Option<&Value>| value.is_none_or(|value| value.as_str().is_none_or(|text| text.trim().is_empty()));
    if blank(spec.pod_spec.get("restartPolicy")) {
        spec.pod_spec.fields_mut().insert("restartPolicy".into(), json!("Always"));
    }
    if spec.pod_spec.get("terminationGracePeriodSeconds").is_none_or(Value::is_null) {
        let seconds = json!(TERMINATION_GRACE_PERIOD_SECONDS);
        spec.pod_spec.fields_mut().insert("terminationGracePeriodSeconds".into(), seconds);
    }
}
