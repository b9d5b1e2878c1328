//! A token file is read again when its content changes, so that a service outlives its tokens. kube looks at it every 50
//! seconds, and so long this test takes.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, http::HeaderMap, routing::get};
use grove_runtime::client;
use tokio::{net::TcpListener, time::timeout};

/// The tokens that came with requests.
type Seen = Arc<Mutex<BTreeSet<String>>>;

async fn version(State(seen): State<Seen>, headers: HeaderMap) -> &'static str {
    let token = headers["authorization"].to_str().unwrap().to_owned();
    seen.lock().unwrap().insert(token);
    r#"{ "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "" }"#
}

/// A server that takes any token, and its address.
async fn server(seen: Seen) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new().route("/version", get(version)).with_state(seen);
    tokio::spawn(async { axum::serve(listener, routes).await });
    address
}

fn kubeconfig(server: &str, token: &Path) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: c,
          clusters: [{{name: c, cluster: {{server: '{server}'}}}}],
          users: [{{name: u, user: {{tokenFile: '{}'}}}}],
          contexts: [{{name: c, context: {{cluster: c, user: u}}}}]}}",
        token.display()
    )
}

#[tokio::test]
async fn a_renewed_token_is_used_without_a_restart() {
    client::install_crypto_provider();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (token, config) = (folder.join("token"), folder.join("kubeconfig"));
    let seen = Seen::default();
    std::fs::write(&token, "first").unwrap();
    std::fs::write(&config, kubeconfig(&server(Arc::clone(&seen)).await, &token)).unwrap();
    let connection = client::connect(Some(&config), "test", None).await.unwrap();

    connection.clients.requests.apiserver_version().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from(["Bearer first".to_owned()]));
    std::fs::write(&token, "second").unwrap();
    let renewed = async {
        for client in [&connection.clients.requests, &connection.clients.watches, &connection.leases] {
            seen.lock().unwrap().clear();
            while !seen.lock().unwrap().contains("Bearer second") {
                client.apiserver_version().await.unwrap();
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
    };
    // A deadline for a token that is never read again.
    timeout(Duration::from_mins(10), renewed).await.unwrap();
}
