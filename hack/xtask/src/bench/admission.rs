//! `bench admission`: what a review costs the webhook server, measured on its process while reviews are sent over TLS, and
//! whether its memory stays what it is.

use super::{go_on_optimised, machine, usage};
use crate::args::{Admission, Source, Wish};
use crate::plane::{Afterwards, Plane, with_plane};
use crate::{webhooks, workspace};
use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Connections, each with one review at a time.
const CONNECTIONS: u64 = 4;
/// As often is looked what the process uses.
const LOOKS: u64 = 10;
/// The set that is sent: a model over several nodes and its router.
const SET: &str = "deploy/examples/multinode.yaml";
/// Milliseconds of processor time that a review may take.
const DEAREST: f64 = 1.0;
/// Megabytes that the process may grow by once it has answered a tenth of all.
const GROWTH: f64 = 2.0;

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
        let looks = measure(plane, wish.reviews).await?;
        let report = report(&looks, &machine::describe(plane).await?);
        println!("{report}");
        let out = wish.out.clone().unwrap_or_else(|| workspace::root().join("target/bench"));
        std::fs::create_dir_all(&out)?;
        std::fs::write(out.join("admission.md"), report)?;
        judge(&looks)
    })
    .await
}

async fn measure(plane: &Plane, reviews: u64) -> Result<Vec<Look>> {
    let running = plane.processes.running();
    let (_, pid) = running.iter().find(|(name, _)| name == webhooks::SERVICE).context("no webhook server runs")?;
    let (connector, port) = (connector(plane).await?, plane.port_of_webhooks()?);
    let requests: Arc<[Vec<u8>]> = requests()?.into();
    let began = Instant::now();
    let mut looks = vec![look(*pid, 0, began)?];
    for part in 1..=LOOKS {
        let mut senders = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (connector, requests) = (connector.clone(), Arc::clone(&requests));
            senders.spawn(async move { send(&connector, port, &requests, reviews / LOOKS / CONNECTIONS).await });
        }
        while let Some(sent) = senders.join_next().await {
            sent??;
        }
        looks.push(look(*pid, reviews / LOOKS * part, began)?);
    }
    Ok(looks)
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

/// A creation that is to be filled in, one that is to be judged, and a change that is to be judged.
fn requests() -> Result<Vec<Vec<u8>>> {
    let text = std::fs::read_to_string(workspace::root().join(SET))?;
    let mut set: Value = serde_saphyr::from_str(&text)?;
    set["metadata"]["namespace"] = json!("bench");
    let mut more = set.clone();
    more["spec"]["replicas"] = json!(2);
    let review = |path: &str, object: &Value, old: Option<&Value>| {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let body = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation, "namespace": "bench",
            "name": set["metadata"]["name"], "userInfo": { "username": "bench" }, "object": object, "oldObject": old,
        } })
        .to_string();
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    };
    Ok(vec![
        review("/webhooks/default-podcliqueset", &set, None),
        review("/webhooks/validate-podcliqueset", &set, None),
        review("/webhooks/validate-podcliqueset", &more, Some(&set)),
    ])
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

async fn send(connector: &TlsConnector, port: u16, requests: &[Vec<u8>], count: u64) -> Result<()> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("webhook-server.grove-system.svc")?;
    let mut connection = BufReader::new(connector.connect(name, stream).await?);
    for request in requests.iter().cycle().take(usize::try_from(count)?) {
        connection.get_mut().write_all(request).await?;
        connection.get_mut().flush().await?;
        answer(&mut connection).await?;
    }
    Ok(())
}

/// Reads one answer, and sees to it that it says yes.
async fn answer(connection: &mut Connection) -> Result<()> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if connection.read_line(&mut line).await? == 0 {
            bail!("the webhook server ended the connection");
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
    let body = String::from_utf8(body)?;
    if !body.contains("\"allowed\":true") {
        bail!("a review was answered with {body}");
    }
    Ok(())
}

fn report(looks: &[Look], about: &[String]) -> String {
    let mut text = "# What a review costs\n\nWritten by `cargo xtask bench admission`.\n\n".to_owned();
    for line in about {
        let _ = writeln!(text, "- {line}");
    }
    text += "\n| reviews | seconds | CPU ms per review | memory MB |\n|---|---|---|---|\n";
    for pair in looks.windows(2) {
        let [before, after] = pair else { continue };
        let Look { reviews, seconds, memory_mb, .. } = after;
        let _ = writeln!(text, "| {reviews} | {seconds:.1} | {:.3} | {memory_mb:.1} |", cost(before, after));
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "nobody sends 2^53 reviews")]
fn cost(before: &Look, after: &Look) -> f64 {
    (after.cpu_seconds - before.cpu_seconds) * 1000.0 / (after.reviews - before.reviews) as f64
}

fn judge(looks: &[Look]) -> Result<()> {
    let [first, second, .., last] = looks else { bail!("nothing was measured") };
    let (cost, growth) = (cost(first, last), last.memory_mb - second.memory_mb);
    println!("CPU per review: {cost:.3} ms, at most {DEAREST}; growth: {growth:.1} MB, at most {GROWTH}");
    if cost > DEAREST || growth > GROWTH {
        bail!("a bar was missed");
    }
    Ok(())
}
