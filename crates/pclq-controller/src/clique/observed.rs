//! The snapshot of a clique, its pods, its claims and its gang: plain data and pure queries.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use grove_api_types::scheduler::Scheduler;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::Waiting;

use crate::claims::ObservedClaims;
use crate::gangs::{self, ObservedGang};
use crate::observed::ObservedClique;
use crate::startup::ObservedStartup;

/// The snapshot of a reconcile.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The clique and its pods.
    pub(crate) state: ObservedClique,
    /// The gang of its pods.
    pub(crate) gang: ObservedGang,
    /// The pods that wait for the retry of a rejected create.
    pub(crate) backed_off: BackedOffCreates,
    /// The indices at which pods ended soon after they started, and the time until the next replacement.
    pub(crate) delayed_replacements: BTreeMap<i32, Duration>,
    /// The scheduler of its pods if its template names none.
    pub(crate) default_scheduler: Scheduler,
    /// The claims that its pods use.
    pub(crate) claims: ObservedClaims,
    /// The `ResourceClaimTemplate` of its compute domain, if it does not exist and pods wait for the scheduler. NVIDIA's driver deletes it
    /// with the domain, and creates it with the next one.
    pub(crate) missing_domain_template: Option<String>,
    /// The cliques that its pods start after.
    pub(crate) startup: ObservedStartup,
}

impl Deref for Observed {
    type Target = ObservedClique;

    fn deref(&self) -> &ObservedClique {
        &self.state
    }
}

#[cfg(test)]
impl std::ops::DerefMut for Observed {
    fn deref_mut(&mut self) -> &mut ObservedClique {
        &mut self.state
    }
}

impl Observed {
    /// The created pods and claims with pending watch events.
    pub(crate) fn all_pending_creates(&self) -> PendingCreates {
        let (pods, claims) = (&self.pending_creates.children, &self.claims.pending_creates.children);
        let mut children: Vec<_> = pods.iter().chain(claims).cloned().collect();
        children.sort();
        PendingCreates { children }
    }

    /// The pods and claims that wait for the retry of a rejected create.
    pub(crate) fn all_backed_off(&self) -> Cow<'_, BackedOffCreates> {
        if self.claims.backed_off.children.is_empty() {
            return Cow::Borrowed(&self.backed_off);
        }
        let mut all = self.claims.backed_off.clone();
        all.children.extend(self.backed_off.children.iter().cloned());
        Cow::Owned(all)
    }

    /// The annotations of the clique that cannot be read, each with the reason of a condition. New pods need their values.
    pub(crate) fn unreadable_annotations(&self) -> impl Iterator<Item = Waiting> {
        self.claims.unknown().into_iter().chain(gangs::unreadable_annotations(&self.clique))
    }
}
