//! `bench admission`: what a review costs the webhook server, measured on its process while reviews are sent over TLS, and
//! whether its memory stays what it is; and what it takes when what is sent is as large as can be.

use super::{go_on_optimised, machine, report, usage};
use crate::args::{Admission, Source, Wish};
use crate::plane::{Afterwards, Plane, with_plane};
use crate::{webhooks, workspace};
use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::{TlsConnector, client::TlsStream};
use webhook_server::webhook::Webhook;

/// Connections, each with one review at a time.
const CONNECTIONS: u64 = 4;
/// As often is looked what the process uses.
const LOOKS: u64 = 10;
/// The set that is sent: a model over several nodes and its router.
const SET: &str = "deploy/examples/multinode.yaml";
/// About what etcd stores, and what the webhook server takes.
const LARGEST_SET: usize = 1_400_000;
const LARGEST_REVIEW: usize = 8_000_000;
/// Milliseconds of processor time that a review may take.
const DEAREST: f64 = 1.0;
/// Megabytes that the process may grow by once it has answered a tenth of all.
const GROWTH: f64 = 2.0;
/// Connections that send what is large at a time, and how much each of them sends.
const LARGE: (usize, usize) = (32, 12);
/// Megabytes that the process may take beyond what it has, whatever is sent.
const MOST: f64 = 160.0;

type Connection = BufReader<TlsStream<TcpStream>>;

/// What the process has used after so many reviews.
struct Look {
    reviews: u64,
    seconds: f64,
    cpu_seconds: f64,
    memory_mb: f64,
}

/// Sends the reviews and says what they cost.
pub(crate) async fn run(source: &Source, wish: &Admission) -> Result<()> {
    if source.kubeconfig.is_some() {
        bail!("the figures are read from a process of this machine; leave --kubeconfig out");
    }
    if cfg!(debug_assertions) {
        return Err(go_on_optimised()?);
    }
    let dir = wish.dir.clone().unwrap_or_else(|| workspace::root().join("target/grove-bench"));
    let plane = Wish { dir: Some(dir), nodes: Some(1), ..Wish::default() };
    with_plane(source, &plane, Afterwards::Ends, async |plane: &mut Plane| {
        let running = plane.processes.running();
        let (_, pid) = running.iter().find(|(name, _)| name == webhooks::SERVICE).context("no webhook server runs")?;
        let server = Server { pid: *pid, connector: connector(plane).await?, port: plane.port_of_webhooks()? };
        let looks = measure(&server, wish.reviews).await?;
        let burden = burdened(&server).await?;
        let text = text(&looks, &burden, &machine::describe(plane).await?);
        println!("{text}");
        report::page(&report::folder(wish.out.as_ref())?, "admission", &text)?;
        judge(&looks, &burden)
    })
    .await
}

/// Who is asked.
#[derive(Clone)]
struct Server {
    pid: i32,
    connector: TlsConnector,
    port: u16,
}

async fn measure(server: &Server, reviews: u64) -> Result<Vec<Look>> {
    let requests: Arc<[Vec<u8>]> = requests()?.into();
    let began = Instant::now();
    let mut looks = vec![look(server.pid, 0, began)?];
    for part in 1..=LOOKS {
        let mut senders = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (server, requests) = (server.clone(), Arc::clone(&requests));
            senders.spawn(async move { send(&server, &requests, reviews / LOOKS / CONNECTIONS).await });
        }
        while let Some(sent) = senders.join_next().await {
            sent??;
        }
        looks.push(look(server.pid, reviews / LOOKS * part, began)?);
    }
    Ok(looks)
}

/// What the process takes when what is large comes from everywhere.
struct Burden {
    before_mb: f64,
    peak_mb: f64,
    after_mb: f64,
    /// How many were answered with each status.
    answers: BTreeMap<u16, u64>,
}

/// Sets as large as etcd takes them, lists of tiny maps, and what is too long, all at the same time.
async fn burdened(server: &Server) -> Result<Burden> {
    let before_mb = usage::resident_mb(server.pid)?;
    let requests: Arc<[Vec<u8>]> = large()?.into();
    let mut senders = JoinSet::new();
    for first in 0..LARGE.0 {
        let (server, requests) = (server.clone(), Arc::clone(&requests));
        senders.spawn(async move {
            let mut statuses = vec![];
            for request in requests.iter().cycle().skip(first).take(LARGE.1) {
                // Who is refused by its length alone is not read to the end.
                let mut connection = server.connect().await?;
                drop(connection.get_mut().write_all(request).await);
                drop(connection.get_mut().flush().await);
                statuses.push(answer(&mut connection).await.map_or(0, |(status, _)| status));
            }
            Ok::<_, anyhow::Error>(statuses)
        });
    }
    let mut answers = BTreeMap::new();
    while let Some(statuses) = senders.join_next().await {
        for status in statuses?? {
            *answers.entry(status).or_default() += 1;
        }
    }
    let peak_mb = usage::of(server.pid)?.peak_mb;
    Ok(Burden { before_mb, peak_mb, after_mb: usage::resident_mb(server.pid)?, answers })
}

fn large() -> Result<Vec<Vec<u8>>> {
    let mut set = set()?;
    let cliques = set["spec"]["template"]["cliques"].as_array_mut().context("the set has no cliques")?;
    let clique = cliques.first().context("the set has no clique")?.clone();
    let count = LARGEST_SET / clique.to_string().len();
    *cliques = vec![clique; count];
    let path = Webhook::ValidateSet.path();
    let dense = r#"{"":0},"#;
    Ok(vec![
        review(path, &set, Some(&set)),
        post(path, &["[", &dense.repeat(LARGEST_REVIEW / dense.len()), "0]"].concat()),
        post(path, &" ".repeat(2 * LARGEST_REVIEW)),
        review(path, &json!("x".repeat(LARGEST_REVIEW / 2)), None),
    ])
}

fn look(pid: i32, reviews: u64, began: Instant) -> Result<Look> {
    let used = usage::of(pid)?;
    Ok(Look {
        reviews,
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: used.cpu_seconds,
        memory_mb: usage::resident_mb(pid)?,
    })
}

fn set() -> Result<Value> {
    let mut set: Value = serde_saphyr::from_str(&std::fs::read_to_string(workspace::root().join(SET))?)?;
    set["metadata"]["namespace"] = json!("bench");
    Ok(set)
}

/// A creation that is to be filled in, one that is to be judged, and a change that is to be judged.
fn requests() -> Result<Vec<Vec<u8>>> {
    let set = set()?;
    let mut more = set.clone();
    more["spec"]["replicas"] = json!(2);
    Ok(vec![
        review(Webhook::DefaultSet.path(), &set, None),
        review(Webhook::ValidateSet.path(), &set, None),
        review(Webhook::ValidateSet.path(), &more, Some(&set)),
    ])
}

fn review(path: &str, object: &Value, old: Option<&Value>) -> Vec<u8> {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let body = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation, "namespace": "bench",
        "name": object["metadata"]["name"].as_str().unwrap_or_default(), "userInfo": { "username": "bench" },
        "object": object, "oldObject": old,
    } });
    post(path, &body.to_string())
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

async fn connector(plane: &Plane) -> Result<TlsConnector> {
    let template = "--output=go-template={{index .data \"ca.crt\" | base64decode}}";
    let arguments = ["get", "secret", "grove-webhook-server-cert", "--namespace=grove-system", template];
    let authorities = plane.kubectl.run(&arguments).await?;
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

impl Server {
    async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("webhook-server.grove-system.svc")?;
        Ok(BufReader::new(self.connector.connect(name, stream).await?))
    }
}

/// Sends reviews one after the other, and sees to it that each is answered with yes.
async fn send(server: &Server, requests: &[Vec<u8>], count: u64) -> Result<()> {
    let mut connection = server.connect().await?;
    for request in requests.iter().cycle().take(usize::try_from(count)?) {
        connection.get_mut().write_all(request).await?;
        connection.get_mut().flush().await?;
        let (_, body) = answer(&mut connection).await?;
        if !body.contains("\"allowed\":true") {
            bail!("a review was answered with {body}");
        }
    }
    Ok(())
}

/// Reads one answer: its status and its body.
async fn answer(connection: &mut Connection) -> Result<(u16, String)> {
    let (mut status, mut length, mut line) = (None, 0, String::new());
    loop {
        line.clear();
        if connection.read_line(&mut line).await? == 0 {
            bail!("the webhook server ended the connection");
        }
        if status.is_none() {
            status = line.split_whitespace().nth(1).and_then(|code| code.parse().ok());
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await?;
    Ok((status.context("an answer without a status")?, String::from_utf8(body)?))
}

fn text(looks: &[Look], burden: &Burden, about: &[String]) -> String {
    let mut text = about.iter().fold(String::new(), |text, line| text + "- " + line + "\n");
    text += "\n| reviews | seconds | CPU ms per review | memory MB |\n|---:|---:|---:|---:|\n";
    for pair in looks.windows(2) {
        let [before, after] = pair else { continue };
        let Look { reviews, seconds, memory_mb, .. } = after;
        let _ = writeln!(text, "| {reviews} | {seconds:.1} | {:.3} | {memory_mb:.1} |", cost(before, after));
    }
    let Burden { before_mb, peak_mb, after_mb, answers } = burden;
    let answers: Vec<_> = answers.iter().map(|(status, count)| format!("{count} with {status}")).collect();
    let _ = writeln!(
        text,
        "\nThen {} large reviews over {} connections: memory {before_mb:.1} MB before, {peak_mb:.1} MB at most, {after_mb:.1} MB after. \
         Answered: {}.",
        LARGE.1 * LARGE.0,
        LARGE.0,
        answers.join(", ")
    );
    let [first, second, .., last] = looks else { return text };
    let (cost, growth) = (cost(first, last), last.memory_mb - second.memory_mb);
    let _ = writeln!(text, "\nDemands:\n");
    let _ = writeln!(text, "- CPU per review: {cost:.3} ms, at most {DEAREST}");
    let _ = writeln!(text, "- growth of memory after a tenth of the reviews: {growth:.1} MB, at most {GROWTH}");
    let _ = writeln!(text, "- beyond that for what is large: {:.1} MB, at most {MOST}", peak_mb - before_mb);
    text
}

#[expect(clippy::cast_precision_loss, reason = "nobody sends 2^53 reviews")]
fn cost(before: &Look, after: &Look) -> f64 {
    (after.cpu_seconds - before.cpu_seconds) * 1000.0 / (after.reviews - before.reviews) as f64
}

fn judge(looks: &[Look], burden: &Burden) -> Result<()> {
    let [first, second, .., last] = looks else { bail!("nothing was measured") };
    let (cost, growth) = (cost(first, last), last.memory_mb - second.memory_mb);
    if cost > DEAREST || growth > GROWTH || burden.peak_mb - burden.before_mb > MOST {
        bail!("a bar was missed");
    }
    Ok(())
}
