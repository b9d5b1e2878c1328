//! Webhooks on a dev cluster: the shipped manifests, changed so that the API server reaches processes on this machine.
//!
//! A `Service` of type `ExternalName` leads the API server to a local port. The API server still uses the DNS name of the
//! `Service`, so certificates and webhook configurations are the same as in production.

use crate::suite::{Replica, WEBHOOK_SERVER, replicas};
use crate::{ports::Ports, processes::ProcessSpec, workspace};
use anyhow::{Context, Result};
use grove_api_types::configuration::OperatorConfiguration;
use serde_json::{Value, json};
use std::path::Path;

/// The process in front of the replicas of the webhook server, in place of kube-proxy.
pub(crate) const BALANCER: &str = "balancer";

const AUTHORIZER: &str = "deploy/components/authorizer/webhook.yaml";

/// Adapts one rendered manifest to a dev cluster; `None` if a dev cluster does not need the object. Without a `balancer` port
/// the API server cannot reach this machine, so the webhook configurations are left out.
pub(crate) fn adapt_manifest(manifest: &str, balancer: Option<u16>) -> Result<Option<String>> {
    let mut object: Value = serde_saphyr::from_str(manifest).context("a rendered manifest is not valid YAML")?;
    match (object["kind"].as_str(), balancer) {
        (Some("Deployment" | "PodDisruptionBudget"), _)
        | (Some("Service" | "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"), None) => {
            return Ok(None);
        }
        (Some("Service"), Some(_)) => {
            object["spec"] = json!({ "type": "ExternalName", "externalName": "127.0.0.1" });
        }
        (Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"), Some(balancer)) => {
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["clientConfig"]["service"]["port"] = json!(balancer);
            }
        }
        _ => return Ok(Some(manifest.to_owned())),
    }
    Ok(Some(object.to_string()))
}

/// The webhook configuration of the authorizer, if the services' configuration enables the authorizer.
pub(crate) fn authorizer_manifest(configuration: &str) -> Result<Option<String>> {
    let content: Value = serde_saphyr::from_str(configuration).unwrap_or_default();
    // The services report the errors of an invalid configuration.
    let is_enabled = OperatorConfiguration::read(&content).is_ok_and(|(read, _)| read.authorizer.enabled);
    let file = workspace::root().join(AUTHORIZER);
    is_enabled.then(|| std::fs::read_to_string(&file).context("cannot read the authorizer's manifest")).transpose()
}

/// The flags that only the webhook server has.
pub(crate) fn flags(ports: &Ports, replica: Replica) -> Result<Vec<String>> {
    let port = ports.get(&replica.webhook_port())?;
    Ok(vec![
        "--webhook-address".to_owned(),
        format!("127.0.0.1:{port}"),
        // The balancer probes much more often than that, so it has seen the replica become unready.
        "--shutdown-delay-duration".to_owned(),
        "500ms".to_owned(),
    ])
}

/// The process that forwards each connection to a ready replica of the webhook server.
pub(crate) fn balancer(dir: &Path, ports: &Ports, replica_count: u32) -> Result<ProcessSpec> {
    let mut arguments = vec!["balance".to_owned(), "--port".to_owned(), ports.get(BALANCER)?.to_string()];
    for replica in replicas(replica_count).filter(|replica| replica.service == WEBHOOK_SERVER) {
        let (webhooks, probes) = (ports.get(&replica.webhook_port())?, ports.get(&replica.probe_port())?);
        arguments.extend(["--backend".to_owned(), format!("{webhooks}:{probes}")]);
    }
    // The process ignores the folder, but a list of processes shows which dev cluster the process belongs to.
    arguments.extend(["--dir".to_owned(), dir.display().to_string()]);
    Ok(ProcessSpec { name: BALANCER.to_owned(), program: workspace::binary("xtask")?, arguments, inputs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::{adapt_manifest, authorizer_manifest};

    #[test]
    fn adapted_manifests_point_to_the_balancer() {
        assert_eq!(adapt_manifest("kind: Deployment\n", Some(7)).unwrap(), None);
        let role = "kind: Role\nname: x\n";
        assert_eq!(adapt_manifest(role, Some(7)).unwrap().as_deref(), Some(role));
        let service = "kind: Service\nmetadata: {name: webhook-server}\nspec: {ports: [{port: 443}]}\n";
        assert_eq!(adapt_manifest(service, None).unwrap(), None);
        let service = adapt_manifest(service, Some(7)).unwrap().unwrap();
        assert!(service.contains("ExternalName") && !service.contains("443"), "{service}");
        let hooks = "kind: MutatingWebhookConfiguration\nwebhooks: [{clientConfig: {service: {name: a, port: 443}}}]\n";
        let hooks = adapt_manifest(hooks, Some(7)).unwrap().unwrap();
        assert!(hooks.contains(r#""port":7"#) && hooks.contains(r#""name":"a""#), "{hooks}");
    }

    #[test]
    fn the_authorizer_is_registered_if_the_configuration_enables_it() {
        let head = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";
        assert_eq!(authorizer_manifest(head).unwrap(), None);
        let enabled = authorizer_manifest(&format!("{head}authorizer: {{enabled: true}}\n")).unwrap();
        assert!(enabled.unwrap().contains("authorizer.webhooks.grove.io"));
    }
}
