//! Files as the kubelet and others write them.

use std::path::PathBuf;

use grove_runtime::metrics::Metrics;
use grove_runtime::ready::Ready;
use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::certs::authority::{self, Pair};

const HOUR: Duration = Duration::from_hours(1);

fn pair() -> Pair {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let ca = authority::authority(now, HOUR).unwrap();
    authority::certificate((&ca.certificate, &ca.key), &["webhook-server".to_owned()], now, HOUR).unwrap()
}

/// A folder as the kubelet fills it: what is read are links to a link to the folder of a version.
struct Mount {
    folder: PathBuf,
    version: u32,
}

impl Mount {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("grove-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self { folder, version: 0 }
    }

    fn put(&mut self, certificate: &str, key: &str) {
        self.version += 1;
        let version = format!("..version-{}", self.version);
        std::fs::create_dir_all(self.folder.join(&version)).unwrap();
        std::fs::write(self.folder.join(&version).join(CERTIFICATE), certificate).unwrap();
        std::fs::write(self.folder.join(&version).join(CERTIFICATE_KEY), key).unwrap();
        let fresh = self.folder.join("..data_tmp");
        std::os::unix::fs::symlink(&version, &fresh).unwrap();
        std::fs::rename(&fresh, self.folder.join("..data")).unwrap();
        for file in [CERTIFICATE, CERTIFICATE_KEY] {
            let _ = std::os::unix::fs::symlink(format!("..data/{file}"), self.folder.join(file));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn until(identity: &Identity, certificate: &str) {
    let wanted = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    while identity.certificate().as_ref() != Some(&wanted) {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_is_mounted_is_served_from_the_moment_it_changes() {
    let mut mount = Mount::new("mounted");
    let (identity, ready) = (Identity::default(), Ready::new());
    let counters = Counters::new(Metrics::new().unwrap().registry()).unwrap();
    let (folder, handle, served) = (mount.folder.clone(), ready.register("the certificate"), identity.clone());
    let following = tokio::spawn(async move { follow(&folder, &served, handle, &counters).await });
    let (first, second) = (pair(), pair());
    mount.put(&first.certificate, &first.key);
    until(&identity, &first.certificate).await;
    ready.wait().await;

    mount.put(&second.certificate, &first.key);
    mount.put("no certificate", &first.key);
    mount.put(&second.certificate, &second.key);
    until(&identity, &second.certificate).await;
    mount.put("", "");
    assert!(identity.certificate().is_some(), "what is served stays");
    following.abort();
}
