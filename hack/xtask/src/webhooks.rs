//! Webhooks on a plane: the shipped manifests, changed so that the API server reaches processes of this machine.
//!
//! A `Service` with an external name leads the API server to a port, by the very name that it would call in a cluster, so
//! certificates and configurations are those of production.

use crate::services::{Replica, replicas};
use crate::{ports::Ports, processes::Launch, workspace};
use anyhow::{Context, Result};
use grove_api_types::configuration::OperatorConfiguration;
use serde_json::{Value, json};
use std::path::Path;

/// What answers the API server.
pub(crate) const SERVICE: &str = "webhook-server";
/// What stands for kube-proxy before its replicas.
pub(crate) const BALANCER: &str = "balancer";

const AUTHORIZER: &str = "deploy/components/authorizer/webhook.yaml";

/// One rendered manifest as a plane needs it; none if it is only of use where pods run. Without a `balancer` the API server
/// does not reach this machine, and must not be told to ask.
pub(crate) fn adapted(manifest: &str, balancer: Option<u16>) -> Result<Option<String>> {
    let mut object: Value = serde_saphyr::from_str(manifest).context("a manifest is no YAML")?;
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

/// The configuration that protects what Grove manages, if the services' configuration asks for that.
pub(crate) fn protection(configuration: &str) -> Result<Option<String>> {
    let content: Value = serde_saphyr::from_str(configuration).unwrap_or_default();
    // What is wrong with the file is told by the services.
    let is_wanted = OperatorConfiguration::read(&content).is_ok_and(|(read, _)| read.authorizer.enabled);
    let file = workspace::root().join(AUTHORIZER);
    is_wanted.then(|| std::fs::read_to_string(&file).context("the authorizer's manifest is missing")).transpose()
}

/// The flags that only this service has.
pub(crate) fn flags(ports: &Ports, replica: Replica) -> Result<Vec<String>> {
    let port = ports.of(&replica.webhook_port())?;
    Ok(vec![
        "--webhook-address".to_owned(),
        format!("127.0.0.1:{port}"),
        // The balancer looks far more often than that.
        "--shutdown-delay-duration".to_owned(),
        "500ms".to_owned(),
    ])
}

/// The process that hands connections to whoever is ready.
pub(crate) fn balancer(dir: &Path, ports: &Ports, of_each: u32) -> Result<Launch> {
    let mut arguments = vec!["balance".to_owned(), "--port".to_owned(), ports.of(BALANCER)?.to_string()];
    for replica in replicas(of_each).filter(|replica| replica.is_of(SERVICE)) {
        let (webhooks, probes) = (ports.of(&replica.webhook_port())?, ports.of(&replica.probe_port())?);
        arguments.extend(["--backend".to_owned(), format!("{webhooks}:{probes}")]);
    }
    // So that a look at the list of processes tells whose it is.
    arguments.extend(["--dir".to_owned(), dir.display().to_string()]);
    Ok(Launch { name: BALANCER.to_owned(), program: workspace::binary("xtask")?, arguments, inputs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::{adapted, protection};

    #[test]
    fn manifests_lead_to_this_machine() {
        assert_eq!(adapted("kind: Deployment\n", Some(7)).unwrap(), None);
        let role = "kind: Role\nname: x\n";
        assert_eq!(adapted(role, Some(7)).unwrap().as_deref(), Some(role));
        let service = "kind: Service\nmetadata: {name: webhook-server}\nspec: {ports: [{port: 443}]}\n";
        assert_eq!(adapted(service, None).unwrap(), None);
        let service = adapted(service, Some(7)).unwrap().unwrap();
        assert!(service.contains("ExternalName") && !service.contains("443"), "{service}");
        let hooks = "kind: MutatingWebhookConfiguration\nwebhooks: [{clientConfig: {service: {name: a, port: 443}}}]\n";
        let hooks = adapted(hooks, Some(7)).unwrap().unwrap();
        assert!(hooks.contains(r#""port":7"#) && hooks.contains(r#""name":"a""#), "{hooks}");
    }

    #[test]
    fn protection_is_registered_where_it_is_on() {
        let head = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";
        assert_eq!(protection(head).unwrap(), None);
        let on = protection(&format!("{head}authorizer: {{enabled: true}}\n")).unwrap();
        assert!(on.unwrap().contains("authorizer.webhooks.grove.io"));
    }
}
