//! An HTTP/1.1 client for processes on this machine: probes, metrics, etcd, webhooks.

use std::io::Cursor;
use std::sync::Arc;

use anyhow::{Context, Result};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

/// A request body that several requests can share.
type Body = Full<Cursor<Arc<[u8]>>>;

/// The status code and the body of a response.
pub type Response = (u16, String);

/// Sends one request over a new connection to a port of 127.0.0.1.
///
/// # Errors
/// If no process listens on the port, or the response is not valid HTTP.
pub async fn send(port: u16, method: &str, path: &str, body: &str) -> Result<Response> {
    let request = Request::builder().method(method).uri(format!("http://127.0.0.1:{port}{path}"));
    let client = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
    respond(&client, request.body(Full::new(Cursor::new(Arc::from(body.as_bytes()))))?).await
}

/// Sends requests to one HTTPS port of 127.0.0.1 and reuses its connections.
#[derive(Clone)]
pub struct HttpsClient {
    client: legacy::Client<HttpsConnector<HttpConnector>, Body>,
    port: u16,
}

impl HttpsClient {
    /// A client that expects a certificate for `server_name`. It connects with the first request.
    ///
    /// # Errors
    /// If `server_name` is not a DNS name.
    pub fn new(tls: ClientConfig, server_name: &str, port: u16) -> Result<Self> {
        let server_name = ServerName::try_from(server_name.to_owned())?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(server_name))
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self { client: legacy::Client::builder(TokioExecutor::new()).build(connector), port })
    }

    /// Posts a JSON body.
    ///
    /// # Errors
    /// If the connection fails before the response is complete.
    pub async fn post_json(&self, path: &str, body: Arc<[u8]>) -> Result<Response> {
        let uri = format!("https://127.0.0.1:{}{path}", self.port);
        let request = Request::post(uri).header("Content-Type", "application/json");
        respond(&self.client, request.body(Full::new(Cursor::new(body)))?).await
    }
}

async fn respond<C>(client: &legacy::Client<C, Body>, request: Request<Body>) -> Result<Response>
where
    C: legacy::connect::Connect + Clone + Send + Sync + 'static,
{
    let response = client.request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec()).context("the body is not UTF-8")?))
}

#[cfg(test)]
mod tests {
    use super::send;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_port_without_a_listener_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(send(port, "GET", "/readyz", "").await.is_err());
    }

    #[tokio::test]
    async fn a_response_that_comes_before_the_request_is_complete_is_returned() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0_u8; 64];
            stream.read_exact(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n").await.unwrap();
            // The server reads no more: the request is larger than the buffers of the connection.
            std::future::pending::<()>().await;
        };
        let body = " ".repeat(30_000_000);
        let response = tokio::select! {
            response = send(port, "POST", "/validate", &body) => response.unwrap(),
            () = server => unreachable!("the server waits"),
        };
        assert_eq!(response, (413, "no\n".to_owned()));
    }
}
