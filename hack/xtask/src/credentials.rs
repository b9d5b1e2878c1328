//! Keys, tokens and kubeconfigs of the users of a dev cluster.

use crate::workspace::{hex, write_private};
use anyhow::{Context, Result};
use kube::config::{AuthInfo, Kubeconfig, NamedAuthInfo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) const ADMIN: &str = "admin";

/// The name of the file with the certificate of the API server and that of its CA. The API server reads it from `--cert-dir`.
const CERTIFICATE: &str = "apiserver.crt";

/// The users with a static token: name of the kubeconfig, name in Kubernetes, group.
const USERS: [(&str, &str, &str); 4] = [
    (ADMIN, "admin", "system:masters"),
    ("kube-controller-manager", "system:kube-controller-manager", ""),
    ("kube-scheduler", "system:kube-scheduler", ""),
    ("kwok", "kwok", ""),
];

/// The kubeconfigs of all users of the dev cluster.
pub(crate) fn kubeconfigs(dir: &Path) -> impl Iterator<Item = PathBuf> {
    USERS.iter().map(|(name, _, _)| kubeconfig(dir, name))
}

pub(crate) fn kubeconfig(dir: &Path, user: &str) -> PathBuf {
    dir.join(format!("{user}.kubeconfig"))
}

/// Creates the certificate of the API server, the key pair that signs ServiceAccount tokens, the token of each user, and the kubeconfigs.
/// Does nothing if the dev cluster has them already.
pub(crate) fn create(dir: &Path, api_server: u16) -> Result<()> {
    let pki = dir.join("pki");
    std::fs::create_dir_all(&pki)?;
    if pki.join("tokens.csv").exists() {
        return Ok(());
    }
    create_certificate(&pki).context("cannot create the certificate of the API server")?;
    let key = KeyPair::generate().context("cannot create a signing key")?;
    write_private(&pki.join("service-accounts.key"), &key.serialize_pem())?;
    write_private(&pki.join("service-accounts.pub"), &key.public_key_pem())?;
    let mut table = String::new();
    for (name, user, group) in USERS {
        let token = random_token()?;
        writeln!(table, "{token},{user},{name},\"{group}\"")?;
        write_private(&kubeconfig(dir, name), &kubeconfig_text(dir, api_server, name, &token))?;
    }
    write_private(&pki.join("tokens.csv"), &table)
}

/// Writes the certificate of the API server, with that of its CA, and its key. The API server would create an RSA key, with which it needs
/// ten times as much processor time for each new connection.
fn create_certificate(pki: &Path) -> Result<()> {
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "dev cluster");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let mut server = CertificateParams::new(names.map(str::to_owned))?;
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &ca)?;
    write_private(&pki.join("apiserver.key"), &key.serialize_pem())?;
    write_private(&pki.join(CERTIFICATE), &(certificate.pem() + &ca.pem()))
}

fn kubeconfig_text(dir: &Path, port: u16, user: &str, token: &str) -> String {
    let authority = dir.join("pki").join(CERTIFICATE).display().to_string();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: grove\n\
         clusters:\n- name: grove\n  cluster:\n    server: https://127.0.0.1:{port}\n    certificate-authority: {authority:?}\n\
         contexts:\n- name: grove\n  context:\n    cluster: grove\n    user: {user}\n\
         users:\n- name: {user}\n  user:\n    token: {token}\n"
    )
}

/// A kubeconfig for the cluster of the kubeconfig `admin`, with a user that reads its token from a file.
pub(crate) fn with_token_file(admin: &Path, token: &Path) -> Result<String> {
    let mut config = Kubeconfig::read_from(admin)?;
    let current = config.current_context.clone().context("the kubeconfig has no current context")?;
    config.contexts.retain(|context| context.name == current);
    let context = config
        .contexts
        .first_mut()
        .and_then(|named| named.context.as_mut())
        .context("the kubeconfig lacks its current context")?;
    context.user = Some("service".to_owned());
    let cluster = context.cluster.clone();
    config.clusters.retain(|named| named.name == cluster);
    let auth = AuthInfo { token_file: Some(token.display().to_string()), ..AuthInfo::default() };
    config.auth_infos = vec![NamedAuthInfo { name: "service".to_owned(), auth_info: Some(auth), ..Default::default() }];
    Ok(serde_json::to_string_pretty(&config)?)
}

fn random_token() -> Result<String> {
    let mut bytes = [0_u8; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}
