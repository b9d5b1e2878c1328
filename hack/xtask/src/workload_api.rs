//! The workload API of Kubernetes (`scheduling.k8s.io`), an alpha API: the flags with which the parts of a control plane have it.

use clap::ValueEnum;

/// Serves the API.
const SERVED: &str = "--runtime-config=scheduling.k8s.io/v1alpha2=true";
/// The feature gates of the API. The last two let the scheduler pack gangs by topology, and preempt whole gangs.
const GATES: &[&str] = &["GenericWorkload", "GangScheduling", TOPOLOGY, PREEMPTION];
const TOPOLOGY: &str = "TopologyAwareWorkloadScheduling";
const PREEMPTION: &str = "WorkloadAwarePreemption";

/// Which parts of a dev cluster have the workload API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadApi {
    /// No part; the component of the default scheduler is not applied, either
    #[default]
    Off,
    /// All parts, and the component of the default scheduler is applied
    On,
    /// Only the component is applied: the API server does not serve the API
    NotServed,
    /// All parts; the component is not applied, so the services may not use the API
    NotPermitted,
    /// All parts, without the preemption of whole gangs
    WithoutPreemption,
    /// All parts, without topology constraints in `PodGroup`s
    WithoutTopology,
    /// All parts but the scheduler, which schedules each pod on its own
    SchedulerWithoutGangs,
}

impl WorkloadApi {
    /// Whether the services may use the API: the component of the default scheduler is applied.
    pub(crate) fn is_permitted(self) -> bool {
        !matches!(self, Self::Off | Self::NotPermitted)
    }

    /// Whether the API server serves the API.
    pub(crate) fn is_served(self) -> bool {
        !self.gates().is_empty()
    }

    /// The flags of the API server.
    pub(crate) fn api_server_flags(self) -> Vec<String> {
        let served = self.is_served().then(|| SERVED.to_owned());
        served.into_iter().chain(feature_gates(&self.gates())).collect()
    }

    /// The flag of the controller manager.
    pub(crate) fn controller_manager_flag(self) -> Option<String> {
        feature_gates(&self.gates())
    }

    /// The flag of the scheduler. A scheduler with `GenericWorkload` and without `GangScheduling` would report every `PodGroup` as
    /// scheduled, so a scheduler without gangs has no gate at all.
    pub(crate) fn scheduler_flag(self) -> Option<String> {
        if self == Self::SchedulerWithoutGangs { None } else { feature_gates(&self.gates()) }
    }

    fn gates(self) -> Vec<&'static str> {
        let without = |excluded: &str| GATES.iter().copied().filter(|gate| *gate != excluded).collect();
        match self {
            Self::Off | Self::NotServed => Vec::new(),
            Self::On | Self::NotPermitted | Self::SchedulerWithoutGangs => GATES.to_vec(),
            Self::WithoutPreemption => without(PREEMPTION),
            Self::WithoutTopology => without(TOPOLOGY),
        }
    }
}

fn feature_gates(gates: &[&str]) -> Option<String> {
    let enabled: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
    (!enabled.is_empty()).then(|| format!("--feature-gates={}", enabled.join(",")))
}

#[cfg(test)]
mod tests {
    use super::{SERVED, WorkloadApi};

    const WITHOUT_PREEMPTION: &str =
        "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true";

    #[track_caller]
    fn check(mode: WorkloadApi, served: &[&str], controller_manager: &str, scheduler: &str) {
        assert_eq!(mode.api_server_flags(), served, "{mode:?}");
        assert_eq!(mode.controller_manager_flag().unwrap_or_default(), controller_manager, "{mode:?}");
        assert_eq!(mode.scheduler_flag().unwrap_or_default(), scheduler, "{mode:?}");
    }

    #[test]
    fn each_part_of_the_control_plane_has_its_flags() {
        let all = format!("{WITHOUT_PREEMPTION},WorkloadAwarePreemption=true");
        for mode in [WorkloadApi::Off, WorkloadApi::NotServed] {
            check(mode, &[], "", "");
        }
        for mode in [WorkloadApi::On, WorkloadApi::NotPermitted] {
            check(mode, &[SERVED, &all], &all, &all);
        }
        check(WorkloadApi::WithoutPreemption, &[SERVED, WITHOUT_PREEMPTION], WITHOUT_PREEMPTION, WITHOUT_PREEMPTION);
        let without_topology = "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true";
        check(WorkloadApi::WithoutTopology, &[SERVED, without_topology], without_topology, without_topology);
        check(WorkloadApi::SchedulerWithoutGangs, &[SERVED, &all], &all, "");
    }
}
