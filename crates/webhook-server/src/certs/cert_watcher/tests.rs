//! Certificate files, written like the kubelet writes them.

use std::path::PathBuf;

use grove_runtime::metrics::Metrics;
use grove_runtime::ready::Readiness;
use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::certs::ca::{self, CertKeyPair};

const HOUR: Duration = Duration::from_hours(1);

fn key_pair() -> CertKeyPair {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let ca = ca::issue_ca(now, HOUR).unwrap();
    ca::issue_serving_cert((&ca.certificate, &ca.key), &["webhook-server".to_owned()], now, HOUR).unwrap()
}

/// A directory with the layout of the kubelet: the files are links through `..data` into the directory of one version.
struct Mount {
    directory: PathBuf,
    version: u32,
}

impl Mount {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("grove-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        Self { directory, version: 0 }
    }

    fn write(&mut self, certificate: &str, key: &str) {
        self.version += 1;
        let version = format!("..version-{}", self.version);
        std::fs::create_dir_all(self.directory.join(&version)).unwrap();
        std::fs::write(self.directory.join(&version).join(CERTIFICATE), certificate).unwrap();
        std::fs::write(self.directory.join(&version).join(CERTIFICATE_KEY), key).unwrap();
        let temporary = self.directory.join("..data_tmp");
        std::os::unix::fs::symlink(&version, &temporary).unwrap();
        std::fs::rename(&temporary, self.directory.join("..data")).unwrap();
        for file in [CERTIFICATE, CERTIFICATE_KEY] {
            let _ = std::os::unix::fs::symlink(format!("..data/{file}"), self.directory.join(file));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

async fn wait_until_served(serving_cert: &ServingCert, certificate: &str) {
    let expected = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    while serving_cert.certificate().as_ref() != Some(&expected) {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_mounted_certificate_is_served_as_soon_as_it_changes() {
    let mut mount = Mount::new("mounted");
    let (serving_cert, ready) = (ServingCert::default(), Readiness::new());
    let metrics = WebhookMetrics::new(Metrics::new().unwrap().registry()).unwrap();
    let readiness = CertReadiness::new(ready.register("the certificate"));
    let (directory, served) = (mount.directory.clone(), serving_cert.clone());
    let watcher = tokio::spawn(async move { watch(&directory, &served, readiness, &metrics).await });
    let (first, second) = (key_pair(), key_pair());
    mount.write(&first.certificate, &first.key);
    wait_until_served(&serving_cert, &first.certificate).await;
    ready.wait().await;

    mount.write(&second.certificate, &first.key);
    mount.write("no certificate", &first.key);
    mount.write(&second.certificate, &second.key);
    wait_until_served(&serving_cert, &second.certificate).await;
    mount.write("", "");
    assert!(serving_cert.certificate().is_some(), "the previous certificate stays in use");
    watcher.abort();
}
