//! Tokens of the services' accounts: as the API server issues them, and such as live for seconds, which it never issues.

use std::time::Duration;

use e2e::Plane;
use e2e::kubectl::kubectl_on;
use k8s_openapi::ByteString;
use rcgen::{KeyPair, SigningKey};
use serde_json::Value;

/// For so long the API server takes a token that has run out, because clocks differ.
const GRACE: Duration = Duration::from_mins(1);

/// Puts this token in the place of the one that the service reads.
pub(super) fn give(plane: &Plane, service: &str, token: &str) {
    std::fs::write(plane.dir().join("sa").join(service).join("token"), token).expect("the file of the token");
}

/// A token that was issued this moment.
pub(super) async fn fresh(plane: &Plane, service: &str) -> String {
    let issued = kubectl_on(plane, &["--namespace", "grove-system", "create", "token", service], "").await;
    issued.expect("a token").trim().to_owned()
}

/// The same, signed again by the API server's own key after the end of its life was brought forward: it is taken for so long.
pub(super) async fn living(plane: &Plane, service: &str, life: Duration) -> String {
    let issued = fresh(plane, service).await;
    let parts: Vec<_> = issued.split('.').collect();
    let [head, claims, _] = parts[..] else { panic!("no token: {issued}") };
    let mut claims: Value = serde_json::from_slice(&read(claims)).expect("claims");
    let now = claims["iat"].as_u64().expect("the time it was issued at");
    claims["exp"] = (now + life.as_secs() - GRACE.as_secs()).into();
    let signed = format!("{head}.{}", written(claims.to_string().into_bytes()));
    let key = std::fs::read_to_string(plane.dir().join("pki/service-accounts.key")).expect("the API server's key");
    let signature = KeyPair::from_pem(&key).expect("a key").sign(signed.as_bytes()).expect("a signature");
    format!("{signed}.{}", written(both_numbers(&signature)))
}

/// Tokens have base64 in its form for addresses, and Kubernetes' objects have the usual one.
fn written(bytes: Vec<u8>) -> String {
    let text = serde_json::to_value(ByteString(bytes)).expect("base64");
    text.as_str().expect("a text").trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn read(text: &str) -> Vec<u8> {
    let padding = "=".repeat((4 - text.len() % 4) % 4);
    let usual = text.replace('-', "+").replace('_', "/") + &padding;
    serde_json::from_value::<ByteString>(usual.into()).expect("base64").0
}

/// A signature is two numbers. In certificates each comes with its length, in tokens each has 32 bytes.
fn both_numbers(signature: &[u8]) -> Vec<u8> {
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
