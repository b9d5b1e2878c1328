//! Probes: if both replicas of webhook-server are unready, no set can be created. A replica on an overloaded node responds late, so
//! its probes have long timeouts, and a single failure has no effect.

use super::{source::Source, tree};
use serde_json::Value;
use std::fs;

const DEPLOYMENT: &str = "deploy/base/webhook-server/deployment.yaml";
/// In seconds. The default of Kubernetes is one.
const MIN_TIMEOUT: u64 = 5;
const MIN_FAILURES: u64 = 3;

fn probes_with_short_limits(manifest: &Source) -> Vec<String> {
    let deployment: Value = serde_saphyr::from_str(&manifest.text).unwrap_or_default();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let number = |probe: &str, field: &str, default: u64| container[probe][field].as_u64().unwrap_or(default);
    let mut violations = Vec::new();
    for probe in ["livenessProbe", "readinessProbe"] {
        if number(probe, "timeoutSeconds", 1) < MIN_TIMEOUT {
            violations.push(format!("{}: {probe} has a timeout below {MIN_TIMEOUT} s", manifest.path));
        }
        if number(probe, "failureThreshold", 3) < MIN_FAILURES {
            violations.push(format!("{}: {probe} fails before failure {MIN_FAILURES}", manifest.path));
        }
    }
    violations
}

#[test]
fn the_probes_of_webhook_server_tolerate_a_late_response() {
    let text = fs::read_to_string(tree::root().join(DEPLOYMENT)).unwrap();
    assert!(text.contains("readinessProbe:"), "{DEPLOYMENT} has no probe");
    tree::assert_none(&probes_with_short_limits(&Source::new(DEPLOYMENT, &text)));
}

#[test]
fn a_probe_with_short_limits_is_found() {
    let deployment = |liveness: &str, readiness: &str| {
        let container = format!("{{livenessProbe: {{{liveness}}}, readinessProbe: {{{readiness}}}}}");
        Source::new("a.yaml", &format!("{{spec: {{template: {{spec: {{containers: [{container}]}}}}}}}}"))
    };
    tree::assert_none(&probes_with_short_limits(&deployment(
        "timeoutSeconds: 5",
        "timeoutSeconds: 5, failureThreshold: 3",
    )));
    tree::assert_one(&probes_with_short_limits(&deployment("periodSeconds: 2", "timeoutSeconds: 5")), "livenessProbe");
    let once = deployment("timeoutSeconds: 5", "timeoutSeconds: 5, failureThreshold: 1");
    tree::assert_one(&probes_with_short_limits(&once), "fails before failure 3");
}
