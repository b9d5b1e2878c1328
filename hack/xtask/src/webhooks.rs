//! Webhooks on a dev cluster: the shipped manifests, changed so that the API server reaches processes on this machine.
//!
//! For a control plane on this machine, a `Service` of type `ExternalName` leads the API server to a local port. The API server still
//! uses the DNS name of the `Service`, so certificates and webhook configurations are the same as in production. Any other API server
//! calls a URL with a host name of this machine.

use crate::args::{Source, UpArgs};
use crate::suite::{Replica, WEBHOOK_SERVER, replicas};
use crate::{ports::Ports, processes::ProcessSpec, workspace};
use anyhow::{Context, Result, bail};
use grove_api_types::configuration::OperatorConfiguration;
use grove_dev_harness::kubectl::Kubectl;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The process in front of the replicas of the webhook server, in place of kube-proxy.
pub(crate) const BALANCER: &str = "balancer";

const AUTHORIZER: &str = "deploy/components/authorizer/webhook.yaml";

/// The label of the webhook configurations.
const CONFIGURATIONS: &str = "app.kubernetes.io/name=webhook-server";

/// How the API server reaches the webhooks on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WebhookRoute {
    /// It cannot: the cluster has no webhook configurations.
    Unreachable,
    /// By a port of the loopback address.
    Loopback,
    /// By a host name or an IP address of this machine.
    Host(String),
}

impl WebhookRoute {
    /// The route of the cluster.
    pub(crate) fn of(source: &Source, args: &UpArgs) -> Result<Self> {
        match (&source.kubeconfig, &args.webhook_host) {
            (None, None) => Ok(Self::Loopback),
            (Some(_), None) => Ok(Self::Unreachable),
            (Some(_), Some(host)) => Ok(Self::Host(host.clone())),
            (None, Some(_)) => bail!("--webhook-host is for a cluster of your own; give --kubeconfig, too"),
        }
    }

    /// The address that the balancer listens on.
    fn listen_address(&self) -> IpAddr {
        match self {
            Self::Unreachable | Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Host(host) if host.parse::<Ipv6Addr>().is_ok() => Ipv6Addr::UNSPECIFIED.into(),
            Self::Host(_) => Ipv4Addr::UNSPECIFIED.into(),
        }
    }
}

/// The URL of a port of this machine.
fn url(host: &str, port: u16, path: &str) -> String {
    if host.parse::<Ipv6Addr>().is_ok() {
        format!("https://[{host}]:{port}{path}")
    } else {
        format!("https://{host}:{port}{path}")
    }
}

/// Adapts one rendered manifest to a dev cluster; `None` if a dev cluster does not need the object. The API server calls the webhooks by
/// the route and the port; without a route, the webhook configurations are left out.
pub(crate) fn adapt_manifest(manifest: &str, route: &WebhookRoute, port: u16) -> Result<Option<String>> {
    let mut object: Value = serde_saphyr::from_str(manifest).context("a rendered manifest is not valid YAML")?;
    match (object["kind"].as_str(), route) {
        (Some("Deployment" | "PodDisruptionBudget"), _)
        | (Some("Service"), WebhookRoute::Unreachable | WebhookRoute::Host(_))
        | (Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"), WebhookRoute::Unreachable) => {
            return Ok(None);
        }
        (Some("Service"), WebhookRoute::Loopback) => {
            object["spec"] = json!({ "type": "ExternalName", "externalName": "127.0.0.1" });
        }
        (Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"), route) => {
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                adapt_client(&mut webhook["clientConfig"], route, port);
            }
        }
        _ => return Ok(Some(manifest.to_owned())),
    }
    Ok(Some(object.to_string()))
}

/// Adapts how the API server calls one webhook.
fn adapt_client(client: &mut Value, route: &WebhookRoute, port: u16) {
    if let WebhookRoute::Host(host) = route {
        let path = client["service"]["path"].as_str().unwrap_or_default();
        *client = json!({ "url": url(host, port, path) });
    } else {
        client["service"]["port"] = json!(port);
    }
}

/// Deletes the webhook configurations. The API server would reject sets while no process answers its calls.
pub(crate) async fn unregister(kubectl: &Kubectl) {
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let deleted = kubectl.run(&["delete", kinds, "--selector", CONFIGURATIONS, "--request-timeout=10s"]).await;
    if let Err(error) = deleted {
        println!("the webhook configurations are left in your cluster, and it will reject sets: {error}");
        println!("delete them: kubectl delete {kinds} --selector {CONFIGURATIONS}");
    }
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
pub(crate) fn flags(ports: &Ports, replica: Replica, route: &WebhookRoute) -> Result<Vec<String>> {
    let port = ports.get(&replica.webhook_port())?;
    let mut flags = vec![
        "--webhook-address".to_owned(),
        format!("127.0.0.1:{port}"),
        // The balancer probes much more often than that, so it has seen the replica become unready.
        "--shutdown-delay-duration".to_owned(),
        "500ms".to_owned(),
    ];
    if let WebhookRoute::Host(host) = route {
        flags.extend(["--certificate-names".to_owned(), host.clone()]);
    }
    Ok(flags)
}

/// The process that forwards each connection to a ready replica of the webhook server.
pub(crate) fn balancer(dir: &Path, ports: &Ports, replica_count: u32, route: &WebhookRoute) -> Result<ProcessSpec> {
    let mut arguments = vec!["balance".to_owned(), "--port".to_owned(), ports.get(BALANCER)?.to_string()];
    arguments.extend(["--address".to_owned(), route.listen_address().to_string()]);
    for replica in replicas(replica_count).filter(|replica| replica.service == WEBHOOK_SERVER) {
        let (webhooks, probes) = (ports.get(&replica.webhook_port())?, ports.get(&replica.probe_port())?);
        arguments.extend(["--backend".to_owned(), format!("{webhooks}:{probes}")]);
    }
    // The process ignores the folder, but a list of processes shows which dev cluster the process belongs to.
    arguments.extend(["--dir".to_owned(), dir.display().to_string()]);
    Ok(ProcessSpec::new(BALANCER, workspace::binary("xtask")?, arguments))
}

#[cfg(test)]
mod tests {
    use super::{WebhookRoute, adapt_manifest, authorizer_manifest};

    const HOOKS: &str = "kind: MutatingWebhookConfiguration\n\
                         webhooks: [{clientConfig: {service: {name: a, path: /b, port: 443}}}]\n";
    const SERVICE: &str = "kind: Service\nmetadata: {name: webhook-server}\nspec: {ports: [{port: 443}]}\n";

    fn adapt(manifest: &str, route: &WebhookRoute) -> Option<String> {
        adapt_manifest(manifest, route, 7).unwrap()
    }

    #[test]
    fn adapted_manifests_point_to_the_balancer() {
        assert_eq!(adapt("kind: Deployment\n", &WebhookRoute::Loopback), None);
        let role = "kind: Role\nname: x\n";
        assert_eq!(adapt(role, &WebhookRoute::Loopback).as_deref(), Some(role));
        let service = adapt(SERVICE, &WebhookRoute::Loopback).unwrap();
        assert!(service.contains("ExternalName") && !service.contains("443"), "{service}");
        let hooks = adapt(HOOKS, &WebhookRoute::Loopback).unwrap();
        assert!(hooks.contains(r#""port":7"#) && hooks.contains(r#""name":"a""#), "{hooks}");
    }

    #[test]
    fn without_a_route_no_webhook_is_registered() {
        assert_eq!(adapt(SERVICE, &WebhookRoute::Unreachable), None);
        assert_eq!(adapt(HOOKS, &WebhookRoute::Unreachable), None);
    }

    #[test]
    fn another_api_server_calls_a_url() {
        for (host, address, url) in [
            ("dev.example.com", "0.0.0.0", "https://dev.example.com:7/b"),
            ("10.0.0.1", "0.0.0.0", "https://10.0.0.1:7/b"),
            ("fd00::1", "::", "https://[fd00::1]:7/b"),
        ] {
            let route = WebhookRoute::Host(host.to_owned());
            assert_eq!(adapt(SERVICE, &route), None);
            let hooks = adapt(HOOKS, &route).unwrap();
            assert!(hooks.contains(&format!(r#"{{"clientConfig":{{"url":"{url}"}}}}"#)), "{hooks}");
            assert_eq!(route.listen_address().to_string(), address);
        }
    }

    #[test]
    fn the_authorizer_is_registered_if_the_configuration_enables_it() {
        let head = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";
        assert_eq!(authorizer_manifest(head).unwrap(), None);
        let enabled = authorizer_manifest(&format!("{head}authorizer: {{enabled: true}}\n")).unwrap();
        assert!(enabled.unwrap().contains("authorizer.webhooks.grove.io"));
    }
}
