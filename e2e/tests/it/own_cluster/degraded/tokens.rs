//! Tokens of the services' `ServiceAccount`s: issued by the API server, or with a lifetime of seconds, which it never issues.

use grove_api_types::SYSTEM_NAMESPACE;
use std::time::Duration;

use e2e::TestCluster;
use e2e::kubectl::kubectl_on;
use k8s_openapi::ByteString;
use rcgen::{KeyPair, SigningKey};
use serde_json::Value;

/// How long the API server accepts an expired token, because clocks differ.
const LEEWAY: Duration = Duration::from_mins(1);

/// Replaces the token that a service reads.
pub(super) fn replace(cluster: &TestCluster, service: &str, token: &str) {
    std::fs::write(cluster.dir().join("sa").join(service).join("token"), token).expect("the token file");
}

/// A new token of the API server.
pub(super) async fn issue(cluster: &TestCluster, service: &str) -> String {
    let issued = kubectl_on(cluster, &["--namespace", SYSTEM_NAMESPACE, "create", "token", service], "").await;
    issued.expect("a token").trim().to_owned()
}

/// A new token with another expiry, signed with the key of the API server. The API server accepts it for `lifetime`.
pub(super) async fn short_lived(cluster: &TestCluster, service: &str, lifetime: Duration) -> String {
    let issued = issue(cluster, service).await;
    let parts: Vec<_> = issued.split('.').collect();
    let [head, claims, _] = parts[..] else { panic!("not a token: {issued}") };
    let mut claims: Value = serde_json::from_slice(&decode(claims)).expect("claims");
    let now = claims["iat"].as_u64().expect("the time of issue");
    claims["exp"] = (now + lifetime.as_secs() - LEEWAY.as_secs()).into();
    let signed = format!("{head}.{}", encode(claims.to_string().into_bytes()));
    let key = std::fs::read_to_string(cluster.dir().join("pki/service-accounts.key")).expect("the API server's key");
    let signature = KeyPair::from_pem(&key).expect("a key").sign(signed.as_bytes()).expect("a signature");
    format!("{signed}.{}", encode(raw_signature(&signature)))
}

/// Tokens use the URL-safe base64 alphabet without padding; [`ByteString`] uses the standard one.
fn encode(bytes: Vec<u8>) -> String {
    let text = serde_json::to_value(ByteString(bytes)).expect("base64");
    text.as_str().expect("a text").trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn decode(text: &str) -> Vec<u8> {
    let padding = "=".repeat((4 - text.len() % 4) % 4);
    let standard = text.replace('-', "+").replace('_', "/") + &padding;
    serde_json::from_value::<ByteString>(standard.into()).expect("base64").0
}

/// Converts an ECDSA signature from DER, in which each number has a length, to the two 32-byte numbers that tokens use.
fn raw_signature(signature: &[u8]) -> Vec<u8> {
    let mut rest = &signature[2..];
    let mut numbers = Vec::new();
    while let [_, length, number @ ..] = rest {
        let (number, after) = number.split_at(usize::from(*length));
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        numbers.resize(numbers.len() + 32 - number.len(), 0);
        numbers.extend_from_slice(number);
        rest = after;
    }
    numbers
}
