//! The rotation loop of mode `auto`: observes, serves the certificate of the Secret, and lets the leader execute the
//! next step.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use grove_runtime::backoff::Backoff;
use grove_runtime::leadership::Leadership;
use grove_runtime::ready::Readiness;
use grove_runtime::runtime::Runtime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::sleep;

use super::cert_writer::CertWriter;
use super::execute::{self, RotationExecutor};
use super::observe::CertCaches;
use super::observed::Observed;
use super::plan::{RotationPolicy, RotationStep, plan};
use super::propagation::CaPropagation;
use super::readiness::CertReadiness;
use super::serving_cert::ServingCert;
use crate::metrics::WebhookMetrics;

/// Pause after a step, unless a watch event comes first. After an error, the pause grows up to a minute.
const STEP_INTERVAL: Duration = Duration::from_secs(1);
/// Longest timer. Nothing notifies this process when the clock is corrected, so the loop compares times at this
/// interval.
const MAX_TIMER: Duration = Duration::from_mins(1);

/// Rotates the certificate of the webhooks (OPA cert-controller: `CertRotator`).
pub(crate) struct CertRotator {
    caches: CertCaches,
    events: BoxStream<'static, ()>,
    serving_cert: ServingCert,
    readiness: CertReadiness,
    executor: RotationExecutor,
    leadership: Leadership,
    metrics: WebhookMetrics,
    propagation: CaPropagation,
    backoff: Backoff,
    /// Whether cert-manager managed the Secret at the last observation.
    is_managed_by_cert_manager: bool,
}

impl CertRotator {
    pub(crate) fn new(
        runtime: &Runtime,
        policy: RotationPolicy,
        (serving_cert, readiness): (ServingCert, CertReadiness),
        metrics: &WebhookMetrics,
    ) -> Self {
        let (caches, events) = CertCaches::start(runtime);
        let writer = CertWriter {
            client: runtime.client(),
            metrics: runtime.metrics().clone(),
            namespace: runtime.namespace().to_owned(),
            secret: runtime.config().server.webhooks.secret_name.clone(),
        };
        Self {
            caches,
            events,
            serving_cert,
            readiness,
            executor: RotationExecutor { writer, policy, clock: runtime.clock() },
            leadership: runtime.leadership().clone(),
            metrics: metrics.clone(),
            propagation: CaPropagation::default(),
            backoff: Backoff::for_objects(),
            is_managed_by_cert_manager: false,
        }
    }

    /// Runs the loop once the caches are synced.
    pub(crate) async fn run(mut self, caches_synced: Readiness) {
        caches_synced.wait().await;
        let mut started_leading = Box::pin(self.leadership.started_leading());
        loop {
            let observed = self.observe();
            self.serve(&observed);
            self.log_source(&observed);
            let step = plan(&observed, &self.executor.policy, self.executor.clock.now());
            self.readiness.update(self.pending_reason(&observed, &step).as_deref());
            let pause = match step {
                RotationStep::WaitUntil(time) => self.time_until(time),
                RotationStep::Bootstrap
                | RotationStep::IssueCa
                | RotationStep::IssueServingCert
                | RotationStep::InjectCaBundle(_) => {
                    if self.leadership.is_held() {
                        self.execute(&observed, &step).await
                    } else {
                        MAX_TIMER
                    }
                }
            };
            tokio::select! {
                Some(()) = self.events.next() => {}
                Some(()) = started_leading.next() => {}
                () = sleep(pause) => {}
            }
        }
    }

    fn observe(&mut self) -> Observed {
        let mut observed = self.caches.observe();
        self.propagation.update(&mut observed, self.executor.clock.now());
        observed
    }

    /// Serves the certificate of the Secret from the next handshake on.
    fn serve(&self, observed: &Observed) {
        // cert-manager writes the certificate before it injects the CA. Until then, only the previous certificate is
        // trusted.
        let is_untrusted = observed.cert_manager_bundle.is_some() && observed.missing_ca_bundle().next().is_some();
        if is_untrusted && self.serving_cert.is_loaded() {
            return;
        }
        let Some((certificate, key)) = self.caches.serving_cert() else { return };
        if let Err(error) = self.serving_cert.load(&certificate.0, &key.0, &self.metrics) {
            tracing::warn!("cannot serve the certificate of the Secret: {error}");
        }
    }

    /// Warns if cert-manager starts to manage the Secret.
    fn log_source(&mut self, observed: &Observed) {
        let was_managed = self.is_managed_by_cert_manager;
        self.is_managed_by_cert_manager = observed.cert_manager_bundle.is_some();
        if self.is_managed_by_cert_manager && !was_managed {
            tracing::warn!(
                secret = self.executor.writer.secret,
                "cert-manager manages the Secret, so this process does not renew the certificate: start it with \
                 --cert-provision-mode=manual, or delete the Certificate and then the Secret"
            );
        }
    }

    /// Why the API server does not trust this replica yet.
    fn pending_reason(&self, observed: &Observed, step: &RotationStep) -> Option<String> {
        if *step == RotationStep::Bootstrap || !self.serving_cert.is_loaded() {
            return Some("the Secret does not contain it yet".to_owned());
        }
        let missing: Vec<_> = observed.missing_ca_bundle().map(|one| one.name.as_str()).collect();
        (!missing.is_empty()).then(|| ["its CA is not in the caBundle of ", &missing.join(", ")].concat())
    }

    /// Executes the step. The end of the leadership cancels it. Returns the pause before the next step.
    async fn execute(&mut self, observed: &Observed, step: &RotationStep) -> Duration {
        let result = tokio::select! {
            result = self.executor.execute(observed, step) => result,
            _ = self.leadership.stopped_leading() => return STEP_INTERVAL,
        };
        match result {
            Ok(()) => self.backoff = Backoff::for_objects(),
            // Another client changed or deleted the object. The watch event of that change triggers the next attempt.
            Err(execute::Error::Write(error)) if [404, 409].contains(&error.code) => {}
            Err(error) => {
                tracing::warn!("{error}");
                return self.backoff.next_delay().max(STEP_INTERVAL);
            }
        }
        STEP_INTERVAL
    }

    fn time_until(&self, time: Timestamp) -> Duration {
        let left = time.duration_since(self.executor.clock.now());
        Duration::try_from(left).unwrap_or_default().min(MAX_TIMER)
    }
}
