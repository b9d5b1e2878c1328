//! The keys that a configuration may have, so that a misspelt one is noticed.

use serde_json::Value;

/// Below a key that ends in `.*` anything goes.
const KEYS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata.*",
    "runtimeClientConnection.qps",
    "runtimeClientConnection.burst",
    "runtimeClientConnection.contentType",
    "runtimeClientConnection.acceptContentTypes",
    "leaderElection.enabled",
    "leaderElection.leaseDuration",
    "leaderElection.renewDeadline",
    "leaderElection.retryPeriod",
    "leaderElection.resourceLock",
    "leaderElection.resourceName",
    "leaderElection.resourceNamespace",
    "server.webhooks.bindAddress",
    "server.webhooks.port",
    "server.webhooks.serverCertDir",
    "server.webhooks.secretName",
    "server.webhooks.certProvisionMode",
    "server.healthProbes.bindAddress",
    "server.healthProbes.port",
    "server.metrics.bindAddress",
    "server.metrics.port",
    "debugging.enableProfiling",
    "debugging.pprofBindHost",
    "debugging.pprofBindPort",
    "controllers.podCliqueSet.concurrentSyncs",
    "controllers.podClique.concurrentSyncs",
    "controllers.podCliqueScalingGroup.concurrentSyncs",
    "controllers.podGang.concurrentSyncs",
    "logLevel",
    "logFormat",
    "authorizer.enabled",
    "authorizer.exemptServiceAccountUserNames",
    "authorizer.reconcilerServiceAccountUserName",
    "topologyAwareScheduling.*",
    "topology.*",
    "clusterTopology.*",
    "network.autoMNNVLEnabled",
    "computeDomain.*",
    "nativeGangs",
    "scheduler.profiles",
    "scheduler.defaultProfileName",
];

/// One warning per key that nobody reads.
pub(super) fn unknown_keys(document: &Value) -> Vec<String> {
    let mut warnings = vec![];
    collect(document, "", &mut warnings);
    warnings.sort();
    warnings
}

fn collect(value: &Value, path: &str, warnings: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    for (key, value) in fields {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let below = format!("{path}.");
        if KEYS.contains(&&*path) || KEYS.contains(&&*format!("{path}.*")) {
            continue;
        }
        if KEYS.iter().any(|known| known.starts_with(&below)) {
            collect(value, &path, warnings);
        } else {
            warnings.push(format!("unknown key {path}"));
        }
    }
}
