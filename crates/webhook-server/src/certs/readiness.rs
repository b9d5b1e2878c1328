//! Reports to the readiness probe whether a trusted certificate is served.

use grove_runtime::ready::ReadyHandle;

/// The readiness of the certificate. It changes to ready once, and stays ready.
#[derive(Debug)]
pub(crate) struct CertReadiness {
    /// `None` once ready.
    handle: Option<ReadyHandle>,
}

impl CertReadiness {
    pub(crate) fn new(handle: ReadyHandle) -> Self {
        Self { handle: Some(handle) }
    }

    /// Reports why the certificate is not ready; `None` means ready.
    pub(crate) fn update(&mut self, reason: Option<&str>) {
        match (reason, self.handle.take()) {
            (Some(reason), Some(handle)) => {
                handle.set_reason(reason);
                self.handle = Some(handle);
            }
            (None, Some(handle)) => handle.set_ready(),
            (_, None) => {}
        }
    }
}
