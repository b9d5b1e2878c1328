//! `bench admission`: CPU time per admission review and memory of the webhook server, under many small reviews and under
//! reviews of the maximum size.

use super::{machine, report, usage};
use crate::args::{Admission, Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::suite::WEBHOOK_SERVER;
use crate::workspace;
use anyhow::{Context, Result, bail};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_dev_harness::http::HttpsClient;
use grove_dev_harness::process_memory;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinSet;
use webhook_server::webhook::Webhook;

/// Connections that send small reviews, each one review at a time.
const CONNECTIONS: u64 = 4;
/// How often the usage of the process is read.
const CHECKPOINTS: u64 = 10;
/// The set of the reviews: a model on several nodes and its router.
const SET: &str = "deploy/examples/multinode.yaml";
/// The DNS name in the serving certificate.
const SERVER_NAME: &str = "webhook-server.grove-system.svc";
/// Bytes: about the largest object that etcd stores.
const MAX_SET: usize = 1_400_000;
/// Bytes: about the largest request that the webhook server accepts.
const MAX_REVIEW: usize = 8_000_000;
/// Connections that send large reviews, and the number of reviews on each.
const LARGE_CONNECTIONS: usize = 32;
const LARGE_REVIEWS: usize = 12;

/// The thresholds: milliseconds of CPU time per review, megabytes of growth after the first tenth of the small reviews, and
/// megabytes beyond that for large reviews.
const MAX_CPU_MS: f64 = 1.0;
const MAX_GROWTH_MB: f64 = 2.0;
const MAX_LARGE_MB: f64 = 160.0;

/// The usage of the process after some reviews.
struct Checkpoint {
    reviews: u64,
    seconds: f64,
    cpu_seconds: f64,
    memory_mb: f64,
}

/// The memory of the process before, during and after large reviews.
struct LargeReviews {
    before_mb: f64,
    peak_mb: f64,
    after_mb: f64,
    /// The number of responses by status code; 0 is a connection without a response.
    responses: BTreeMap<u16, u64>,
}

/// One request to a webhook.
#[derive(Clone)]
struct Review {
    path: &'static str,
    body: Arc<[u8]>,
}

/// The webhook server of the dev cluster.
#[derive(Clone)]
struct Server {
    pid: i32,
    tls: ClientConfig,
    port: u16,
}

impl Server {
    fn client(&self) -> Result<HttpsClient> {
        HttpsClient::new(self.tls.clone(), SERVER_NAME, self.port)
    }
}

/// Sends the reviews, writes the report, and fails if a threshold is not met.
pub(crate) async fn run(source: &Source, args: &Admission) -> Result<()> {
    let dir = super::prepare(source, args.folders.dir.clone())?;
    let up = UpArgs { dir: Some(dir), nodes: Some(1), ..UpArgs::default() };
    with_dev_cluster(source, &up, OnExit::Stop, async |cluster: &mut DevCluster| {
        let running = cluster.processes.running();
        let (_, pid) =
            running.iter().find(|(name, _)| name == WEBHOOK_SERVER).context("the webhook server is not running")?;
        let server = Server { pid: *pid, tls: tls_config(cluster).await?, port: cluster.webhook_port()? };
        let checkpoints = send_small_reviews(&server, args.reviews).await?;
        let large = send_large_reviews(&server).await?;
        let text = text(&checkpoints, &large, &machine::describe(cluster).await?);
        println!("{text}");
        report::update_page(&report::folder(args.folders.out.as_ref())?, "admission", &text)?;
        check_thresholds(&checkpoints, &large)
    })
    .await
}

async fn tls_config(cluster: &DevCluster) -> Result<ClientConfig> {
    let namespace = format!("--namespace={SYSTEM_NAMESPACE}");
    let template = "--output=go-template={{index .data \"ca.crt\" | base64decode}}";
    let bundle = cluster.kubectl.run(&["get", "secret", "grove-webhook-server-cert", &namespace, template]).await?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

async fn send_small_reviews(server: &Server, reviews: u64) -> Result<Vec<Checkpoint>> {
    let requests: Arc<[Review]> = small_reviews()?.into();
    let started = Instant::now();
    let mut checkpoints = vec![checkpoint(server.pid, 0, started)?];
    for part in 1..=CHECKPOINTS {
        let mut senders = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (client, requests) = (server.client()?, Arc::clone(&requests));
            senders.spawn(async move { send(&client, &requests, reviews / CHECKPOINTS / CONNECTIONS).await });
        }
        while let Some(sent) = senders.join_next().await {
            sent??;
        }
        checkpoints.push(checkpoint(server.pid, reviews / CHECKPOINTS * part, started)?);
    }
    Ok(checkpoints)
}

/// Sends reviews one after the other. Fails if the webhook server denies one.
async fn send(client: &HttpsClient, requests: &[Review], count: u64) -> Result<()> {
    for Review { path, body } in requests.iter().cycle().take(usize::try_from(count)?) {
        let (_, response) = client.post_json(path, Arc::clone(body)).await?;
        if !response.contains("\"allowed\":true") {
            bail!("the webhook server denied a review: {response}");
        }
    }
    Ok(())
}

/// Sends sets of the maximum size, lists of many small maps, and bodies that are too long, all at the same time.
async fn send_large_reviews(server: &Server) -> Result<LargeReviews> {
    let before_mb = process_memory::of(server.pid)?.resident;
    let requests: Arc<[Review]> = large_reviews()?.into();
    let mut senders = JoinSet::new();
    for first in 0..LARGE_CONNECTIONS {
        let (server, requests) = (server.clone(), Arc::clone(&requests));
        senders.spawn(async move {
            let mut statuses = vec![];
            for Review { path, body } in requests.iter().cycle().skip(first).take(LARGE_REVIEWS) {
                // A new connection each time: the server closes the connection when it rejects a body by its length.
                let response = server.client()?.post_json(path, Arc::clone(body)).await;
                statuses.push(response.map_or(0, |(status, _)| status));
            }
            Ok::<_, anyhow::Error>(statuses)
        });
    }
    let mut responses = BTreeMap::new();
    while let Some(statuses) = senders.join_next().await {
        for status in statuses?? {
            *responses.entry(status).or_default() += 1;
        }
    }
    let memory = process_memory::of(server.pid)?;
    Ok(LargeReviews { before_mb, peak_mb: memory.peak, after_mb: memory.resident, responses })
}

fn checkpoint(pid: i32, reviews: u64, started: Instant) -> Result<Checkpoint> {
    Ok(Checkpoint {
        reviews,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: usage::of(pid)?.cpu_seconds,
        memory_mb: process_memory::of(pid)?.resident,
    })
}

/// A create to default, a create to validate, and an update to validate.
fn small_reviews() -> Result<Vec<Review>> {
    let set = set()?;
    let mut scaled = set.clone();
    scaled["spec"]["replicas"] = json!(2);
    Ok(vec![
        review(Webhook::DefaultSet, &set, None),
        review(Webhook::ValidateSet, &set, None),
        review(Webhook::ValidateSet, &scaled, Some(&set)),
    ])
}

fn large_reviews() -> Result<Vec<Review>> {
    let mut set = set()?;
    let cliques = set["spec"]["template"]["cliques"].as_array_mut().context("the set has no cliques")?;
    let clique = cliques.first().context("the set has no clique")?.clone();
    let count = MAX_SET / clique.to_string().len();
    *cliques = vec![clique; count];
    let body = |text: String| Review { path: Webhook::ValidateSet.path(), body: text.into_bytes().into() };
    let small_map = r#"{"":0},"#;
    Ok(vec![
        review(Webhook::ValidateSet, &set, Some(&set)),
        body(["[", &small_map.repeat(MAX_REVIEW / small_map.len()), "0]"].concat()),
        body(" ".repeat(2 * MAX_REVIEW)),
        review(Webhook::ValidateSet, &json!("x".repeat(MAX_REVIEW / 2)), None),
    ])
}

fn set() -> Result<Value> {
    let mut set: Value = serde_saphyr::from_str(&std::fs::read_to_string(workspace::root().join(SET))?)?;
    set["metadata"]["namespace"] = json!("bench");
    Ok(set)
}

fn review(webhook: Webhook, object: &Value, old: Option<&Value>) -> Review {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let body = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation, "namespace": "bench",
        "name": object["metadata"]["name"].as_str().unwrap_or_default(), "userInfo": { "username": "bench" },
        "object": object, "oldObject": old,
    } });
    Review { path: webhook.path(), body: body.to_string().into_bytes().into() }
}

fn text(checkpoints: &[Checkpoint], large: &LargeReviews, conditions: &[String]) -> String {
    let mut text = report::list(conditions);
    text += "\n| reviews | seconds | CPU ms per review | memory MB |\n|---:|---:|---:|---:|\n";
    let pairs = checkpoints.windows(2);
    for pair in pairs.clone().take(1).chain(pairs.skip(1).last()) {
        let [before, after] = pair else { continue };
        let Checkpoint { reviews, seconds, memory_mb, .. } = after;
        let _ = writeln!(text, "| {reviews} | {seconds:.1} | {:.3} | {memory_mb:.1} |", cpu_ms(before, after));
    }
    let LargeReviews { before_mb, peak_mb, after_mb, responses } = large;
    let responses: Vec<_> = responses.iter().map(|(status, count)| format!("{count} with {status}")).collect();
    let _ = writeln!(
        text,
        "\nThen {} large reviews over {LARGE_CONNECTIONS} connections: memory {before_mb:.1} MB before, {peak_mb:.1} MB at the peak, \
         {after_mb:.1} MB after. Responses: {}.",
        LARGE_CONNECTIONS * LARGE_REVIEWS,
        responses.join(", ")
    );
    let [first, second, .., last] = checkpoints else { return text };
    let (cpu, growth) = (cpu_ms(first, last), last.memory_mb - second.memory_mb);
    let _ = writeln!(text, "\nThresholds:\n");
    let _ = writeln!(text, "- CPU per review: {cpu:.3} ms, at most {MAX_CPU_MS}");
    let _ = writeln!(text, "- growth of memory after a tenth of the reviews: {growth:.1} MB, at most {MAX_GROWTH_MB}");
    let _ =
        writeln!(text, "- additional memory for large reviews: {:.1} MB, at most {MAX_LARGE_MB}", peak_mb - before_mb);
    text
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 reviews")]
fn cpu_ms(before: &Checkpoint, after: &Checkpoint) -> f64 {
    (after.cpu_seconds - before.cpu_seconds) * 1000.0 / (after.reviews - before.reviews) as f64
}

fn check_thresholds(checkpoints: &[Checkpoint], large: &LargeReviews) -> Result<()> {
    let [first, second, .., last] = checkpoints else { bail!("there are no figures") };
    let (cpu, growth) = (cpu_ms(first, last), last.memory_mb - second.memory_mb);
    if cpu > MAX_CPU_MS || growth > MAX_GROWTH_MB || large.peak_mb - large.before_mb > MAX_LARGE_MB {
        bail!("a threshold is not met");
    }
    Ok(())
}
