//! Any pod can connect to webhook-server. Connections and bodies that such clients leave unfinished do not exclude the API
//! server.

use e2e::{Namespace, TestCluster, fixtures};
use grove_api_types::v1alpha1::PodCliqueSet;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::rotation::new_connections::{NAME, bundle, connector};

const SILENT_CONNECTIONS: usize = 1000;
const UNFINISHED_BODIES: usize = 300;

/// The head of a review of which the body never arrives.
const HEAD: &str = "POST /webhooks/validate-podcliqueset HTTP/1.1\r\nhost: webhook-server\r\n\
    content-type: application/json\r\ncontent-length: 100\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_and_unfinished_bodies_do_not_prevent_the_creation_of_sets() {
    raise_limit_of_open_files();
    let cluster = TestCluster::with_own_services("unauthenticated-clients", &[]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-unauthenticated").await;
    let (connector, port) = (connector(&bundle(&client).await), cluster.port("webhook-server-webhooks"));

    // The API server has not connected to the webhooks yet.
    let mut silent = Vec::new();
    for _ in 0..SILENT_CONNECTIONS {
        silent.push(connect(&connector, port).await);
    }
    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("first", 1)).await;

    let mut unfinished = Vec::new();
    for _ in 0..UNFINISHED_BODIES {
        let mut connection = connect(&connector, port).await;
        connection.write_all(HEAD.as_bytes()).await.expect("the head is sent");
        connection.flush().await.expect("the head is sent");
        unfinished.push(connection);
    }
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("second", 1)).await;
    drop((silent, unfinished));
    cluster.down().await;
}

async fn connect(connector: &TlsConnector, port: u16) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("webhook-server accepts connections");
    let name = ServerName::try_from(NAME).expect("a name");
    connector.connect(name, stream).await.expect("a TLS handshake")
}

/// The usual soft limit is about the number of the connections.
fn raise_limit_of_open_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("the soft limit is raised");
}
