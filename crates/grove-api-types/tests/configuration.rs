//! The configuration file: the values that the parser reads, and the agreement of the documentation with the code.

use std::collections::BTreeSet;
use std::time::Duration;

use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::configuration::{
    API_VERSION, Address, CertProvisionMode, KIND, LogFormat, LogLevel, NativeGangs, OperatorConfiguration, RateLimit,
    StateSync, TopologyDomain,
};
use grove_api_types::scheduler::Scheduler;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/configuration.md");

/// The result of a file: the configuration with its warnings, or all errors.
fn read(yaml: &str) -> Result<(OperatorConfiguration, Vec<String>), Vec<String>> {
    let mut lines = vec![yaml.to_owned()];
    let head = [("apiVersion", API_VERSION), ("kind", KIND)];
    let missing = head.iter().filter(|(key, _)| !yaml.starts_with(&format!("{key}:")));
    lines.extend(missing.map(|(key, value)| format!("{key}: {value}")));
    let content: Value = serde_saphyr::from_str(&lines.join("\n")).expect("YAML");
    OperatorConfiguration::read(&content).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

/// The fields of errors or warnings.
fn fields(messages: &[String]) -> Vec<&str> {
    messages.iter().map(|message| message.split(": ").next().expect("a field")).collect()
}

/// The rows of the table under a heading of the documentation: the inline code of each cell.
fn rows(heading: &str) -> Vec<Vec<Vec<&'static str>>> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let quoted = |cell: &'static str| cell.split('`').skip(1).step_by(2).collect();
    rows.map(|row| row.trim_matches('|').split('|').map(quoted).collect()).collect()
}

#[test]
fn the_documentation_lists_exactly_the_keys() {
    let documented: Vec<_> = rows("Keys").into_iter().map(|row| row[0][0]).collect();
    let unique: BTreeSet<_> = documented.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(documented.len(), unique.len(), "a key is documented twice");
    // The table lists only leaves.
    let keys = OperatorConfiguration::keys();
    let is_section = |key: &String| {
        keys.iter().any(|other| other.starts_with(&format!("{key}.")) || other.starts_with(&format!("{key}[")))
    };
    let leaves: BTreeSet<_> = keys.iter().filter(|key| !is_section(key)).cloned().collect();
    assert_eq!(unique, leaves);
}

#[test]
fn each_documented_error_has_the_documented_message() {
    let mut rejected = BTreeSet::new();
    for row in rows("Rejected values") {
        let problems = read(&row[0].join("\n")).expect_err(row[0][0]);
        assert!(
            problems.iter().any(|problem| problem == row[1][0]),
            "{}\nresult {problems:#?}\nexpected {}",
            row[0][0],
            row[1][0]
        );
        rejected.insert(row[1][0].split(": ").next().unwrap().replace("[0]", "[]").replace("[1]", "[]"));
    }
    for row in rows("Keys") {
        let key = row[0][0];
        assert!(key.ends_with(".*") || rejected.contains(key), "no error of {key} is documented");
    }
}

#[test]
fn each_documented_warning_has_the_documented_message() {
    for row in rows("Warnings") {
        let (_, warnings) = read(row[0][0]).unwrap();
        assert_eq!(warnings, [row[1][0]]);
    }
}

#[test]
fn the_documented_defaults_are_correct() {
    for row in rows("Keys") {
        let ([key], [default]) = (&row[0][..], &row[2][..]) else { continue };
        let (path, written) = (key.split('.').collect::<Vec<_>>(), *default);
        let yaml = path.iter().rev().fold(written.to_owned(), |inner, part| match part.strip_suffix("[]") {
            Some(list) => format!("{{{list}: [{inner}]}}"),
            None => format!("{{{part}: {inner}}}"),
        });
        let yaml = yaml.strip_prefix('{').and_then(|yaml| yaml.strip_suffix('}')).unwrap();
        let (read, default) = (read(yaml).unwrap().0, OperatorConfiguration::default());
        assert_eq!(in_effect(read), in_effect(default), "{yaml} is not the default");
    }
}

/// The configuration with the values that are in effect if no flag is set.
fn in_effect(mut configuration: OperatorConfiguration) -> OperatorConfiguration {
    let server = &mut configuration.server;
    server.webhooks.address.get_or_insert_default();
    server.webhooks.cert_provision_mode.get_or_insert_default();
    server.health_probes.get_or_insert_default();
    server.metrics.get_or_insert_default();
    configuration
}

#[test]
fn an_empty_file_results_in_the_defaults() {
    let (configuration, warnings) = read("").unwrap();
    assert_eq!((&configuration, warnings), (&OperatorConfiguration::default(), vec![]));
    let OperatorConfiguration { rate_limit, leader_election, server, controllers, topology, schedulers, .. } =
        configuration;
    assert_eq!(rate_limit, None);
    assert!(leader_election.enabled);
    assert_eq!(leader_election.lease_duration, Duration::from_secs(15));
    assert_eq!(server.webhooks.address.unwrap_or_default().to_string(), "[::]:2750");
    assert_eq!(server.health_probes.unwrap_or_default().to_string(), "[::]:2751");
    assert_eq!(server.metrics.unwrap_or_default().to_string(), "[::]:2752");
    assert_eq!(controllers.pod_clique_set.concurrent_syncs, 32);
    assert_eq!(controllers.pod_gang.concurrent_syncs, 5);
    assert_eq!(topology.name, "grove-topology");
    assert_eq!(schedulers.profiles.len(), 1);
}

#[test]
fn a_file_of_the_go_operators_chart_is_valid() {
    let (configuration, warnings) = read(
        "
runtimeClientConnection: {qps: 100, burst: 150}
leaderElection:
  enabled: true
  leaseDuration: 15s
  renewDeadline: 10s
  retryPeriod: 2s
  resourceLock: leases
  resourceName: grove-operator-leader-election
  resourceNamespace: grove-system
server:
  webhooks: {bindAddress: 0.0.0.0, port: 9443, serverCertDir: /etc/grove-operator/webhook-certs, secretName: grove-webhook-server-cert, certProvisionMode: manual}
  healthProbes: {enable: true, bindAddress: 0.0.0.0, port: 9444}
  metrics: {bindAddress: 127.0.0.1, port: 9445}
controllers:
  podCliqueSet: {concurrentSyncs: 3}
  podClique: {concurrentSyncs: 3}
  podCliqueScalingGroup: {concurrentSyncs: 3}
logLevel: debug
logFormat: text
authorizer:
  enabled: true
  reconcilerServiceAccountUserName: system:serviceaccount:grove-system:grove-operator
  exemptServiceAccountUserNames: [system:kube-controller-manager]
topologyAwareScheduling: {enabled: true}
network: {autoMNNVLEnabled: true}
scheduler:
  profiles:
  - name: default-scheduler
    config: {gangScheduling: true}
  - name: kai-scheduler
  defaultProfileName: kai-scheduler
",
    )
    .unwrap();
    let unsupported = ["scheduler.profiles[0].config"];
    assert_eq!(fields(&warnings), unsupported);
    assert_eq!(configuration.rate_limit, Some(RateLimit { qps: 100.0, burst: 150 }));
    assert_eq!(configuration.leader_election.resource_name.as_deref(), Some("grove-operator-leader-election"));
    assert_eq!(configuration.server.webhooks.cert_provision_mode, Some(CertProvisionMode::Manual));
    assert_eq!(configuration.server.metrics.unwrap_or_default().to_string(), "127.0.0.1:9445");
    assert_eq!(configuration.controllers.pod_clique_scaling_group.concurrent_syncs, 3);
    assert_eq!((configuration.log_level, configuration.log_format), (LogLevel::Debug, LogFormat::Text));
    assert_eq!(configuration.authorizer.exempt_users, ["system:kube-controller-manager"]);
    assert!(configuration.topology.enabled && configuration.network.auto_mnnvl_enabled);
    let names: Vec<_> = configuration.schedulers.profiles.iter().map(|profile| profile.name).collect();
    assert_eq!(
        (names, configuration.schedulers.default_profile),
        (vec![Scheduler::Kube, Scheduler::Kai], Scheduler::Kai)
    );
}

#[test]
fn keys_that_the_go_operator_lacks_are_read() {
    let (configuration, warnings) = read(
        "
topology: {enabled: true, name: mine}
topologyAwareScheduling:
  name: mine
  levels: [{domain: host, key: kubernetes.io/hostname}, {domain: rack, key: example.com/rack}]
computeDomain: {stateSync: grove, syncStrategy: ssa-clique, mirrorNodes: true, featureGates: {ComputeDomainCliques: true}}
nativeGangs: 'off'
scheduler: {profiles: [{name: volcano}]}
",
    )
    .unwrap();
    assert_eq!(fields(&warnings), [""; 0]);
    let topology = &configuration.topology;
    assert!(topology.enabled);
    assert_eq!(topology.name, "mine");
    let domains: Vec<_> = topology.levels.iter().map(|level| level.domain).collect();
    assert_eq!(domains, [TopologyDomain::Rack, TopologyDomain::Host], "sorted, broadest first");
    assert!(topology.manages_default() && !topology.requires_default);
    let domains = &configuration.compute_domains;
    assert_eq!((domains.state_sync, domains.sync_strategy), (StateSync::Grove, Some(Strategy::SsaClique)));
    assert!(domains.cliques && domains.mirror_nodes);
    assert_eq!(configuration.native_gangs, NativeGangs::Off);
    let names: Vec<_> = configuration.schedulers.profiles.iter().map(|profile| profile.name).collect();
    assert_eq!(names, [Scheduler::Volcano, Scheduler::Kube], "the default scheduler is always enabled");
}

#[test]
fn zero_null_and_the_empty_string_mean_the_default() {
    let yaml = "runtimeClientConnection: {qps: 0, burst: 0, contentType: ''}\nleaderElection: {leaseDuration: 0s, renewDeadline: '0', resourceName: ''}\n\
                server: {metrics: {port: 0, bindAddress: ''}, healthProbes: null}\nlogLevel: ''\ntopology: null\nscheduler: {profiles: [], defaultProfileName: ''}";
    assert_eq!(read(yaml).unwrap(), (OperatorConfiguration::default(), vec![]));
}

#[test]
fn an_address_is_set_if_the_file_contains_it() {
    let yaml = "server: {metrics: {port: 2752}, webhooks: {certProvisionMode: auto}}";
    let server = read(yaml).unwrap().0.server;
    assert_eq!((server.metrics, server.health_probes), (Some(Address::default()), None));
    assert_eq!((server.webhooks.address, server.webhooks.cert_provision_mode), (None, Some(CertProvisionMode::Auto)));
}

#[test]
fn the_settings_of_compute_domains_need_grove_as_synchronizer() {
    let domains = |yaml: &str| read(yaml).unwrap().0.compute_domains;
    let default = domains("");
    assert!(!default.is_synchronized() && default.strategy() == Strategy::SsaStatus, "the gate is off");
    assert!(default.daemon_image().starts_with("localhost/grove/compute-domain-daemon:"));
    let synchronized =
        domains("computeDomain: {stateSync: grove, featureGates: {ComputeDomainCliques: true}, daemonImage: x}");
    assert!(synchronized.is_synchronized() && synchronized.strategy() == Strategy::ControllerClique);
    assert_eq!(synchronized.daemon_image(), "x");
    for yaml in [
        "computeDomain: {stateSync: grove}",
        "computeDomain: {stateSync: grove, syncStrategy: controller-clique, mirrorNodes: true}",
    ] {
        assert_eq!(read(yaml).unwrap().1, [""; 0], "{yaml}");
    }
    let ignored = "computeDomain: {syncStrategy: rmw-status, featureGates: {ComputeDomainCliques: true}, mirrorNodes: true, daemonImage: x}";
    let keys = ["featureGates.ComputeDomainCliques", "syncStrategy", "mirrorNodes", "daemonImage"];
    assert_eq!(fields(&read(ignored).unwrap().1), keys.map(|key| format!("computeDomain.{key}")));
    let mirrored = read("computeDomain: {stateSync: grove, mirrorNodes: true}").unwrap().1;
    assert_eq!(fields(&mirrored), ["computeDomain.mirrorNodes"], "the strategy stores the state there");
}

#[test]
fn a_negative_rate_means_no_limit() {
    assert_eq!(read("runtimeClientConnection: {qps: -1}").unwrap().0.rate_limit, None);
}

#[test]
fn all_errors_are_reported_at_once() {
    let problems = read(
        "logLevel: loud\ncontrollers: {podClique: {concurrentSyncs: 0}, podGang: [1]}\nserver: {metrics: {port: x}}",
    )
    .unwrap_err();
    let fields = fields(&problems);
    let expected = ["server.metrics.port", "controllers.podClique.concurrentSyncs", "controllers.podGang", "logLevel"];
    assert_eq!(fields, expected);
}

#[test]
fn a_file_that_is_not_a_mapping_is_rejected() {
    let problems = OperatorConfiguration::read(&Value::from("text")).unwrap_err();
    let messages: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(messages[0], r#"the file: Invalid value: "text": must be a mapping"#);
    assert!(OperatorConfiguration::read(&Value::Null).is_err(), "an empty file has no kind");
}

#[test]
fn disabled_leader_election_is_not_validated() {
    let yaml = "leaderElection: {enabled: false, leaseDuration: 1s, renewDeadline: 1m, resourceLock: endpoints}";
    assert!(!read(yaml).unwrap().0.leader_election.enabled);
}
