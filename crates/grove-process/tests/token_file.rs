//! The clients read a token file again when its content changes, so a service outlives its tokens. kube reads the file at
//! most every 50 seconds, so this test takes as long.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use axum::{Router, extract::State, http::HeaderMap, routing::get};
use grove_process::client;
use kube::Client;
use parking_lot::Mutex;
use tokio::{net::TcpListener, time::timeout};

/// The tokens of the requests.
type Seen = Arc<Mutex<BTreeSet<String>>>;

async fn version(State(seen): State<Seen>, headers: HeaderMap) -> &'static str {
    let token = headers["authorization"].to_str().unwrap().to_owned();
    seen.lock().insert(token);
    r#"{ "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "" }"#
}

/// The address of a server that accepts any token.
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
async fn the_clients_use_a_renewed_token_without_a_restart() {
    client::install_crypto_provider();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (token, config) = (folder.join("token"), folder.join("kubeconfig"));
    let seen = Seen::default();
    std::fs::write(&token, "first").unwrap();
    std::fs::write(&config, kubeconfig(&server(Arc::clone(&seen)).await, &token)).unwrap();
    let connection = client::connect(Some(&config), "test", None).await.unwrap();
    let leases = Client::try_from(connection.lease_config.clone()).unwrap();

    connection.clients.requests.apiserver_version().await.unwrap();
    assert_eq!(*seen.lock(), BTreeSet::from(["Bearer first".to_owned()]));
    std::fs::write(&token, "second").unwrap();
    let renewed = async {
        for client in [&connection.clients.requests, &connection.clients.watches, &leases] {
            seen.lock().clear();
            while !seen.lock().contains("Bearer second") {
                client.apiserver_version().await.unwrap();
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
    };
    // The limit for a token that the clients never read again.
    timeout(Duration::from_mins(10), renewed).await.unwrap();
}
