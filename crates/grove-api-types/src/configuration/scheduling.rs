//! `scheduler` and `nativeGangs`: the schedulers that a set may use.

use serde_json::{Map, Value};

use super::document::Section;
use crate::field_error::FieldError;
use crate::scheduler::Scheduler;

/// The schedulers that a set may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedulers {
    /// `profiles`; the list always contains the default scheduler of Kubernetes.
    pub profiles: Vec<SchedulerProfile>,
    /// The scheduler of a clique without a `schedulerName`.
    pub default_profile: Scheduler,
}

/// One scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerProfile {
    /// The scheduler.
    pub name: Scheduler,
    /// The settings of the scheduler, as in the file.
    pub config: Value,
}

impl Default for Schedulers {
    fn default() -> Self {
        Self { profiles: vec![SchedulerProfile::of(Scheduler::Kube)], default_profile: Scheduler::Kube }
    }
}

impl SchedulerProfile {
    fn of(name: Scheduler) -> Self {
        Self { name, config: Value::Null }
    }

    fn read(section: &Section<'_>) -> Option<Self> {
        let config = section.value("config").cloned().unwrap_or_default();
        if ![Value::Null, Value::Object(Map::new())].contains(&config) {
            section.warn("config", "has no effect: no service configures a scheduler");
        }
        if section.string("name").unwrap_or_default().is_empty() {
            section.report(FieldError::required(section.path_of("name"), "scheduler profile name is required"));
        }
        let name = section.enum_value("name", &Scheduler::ALL)?;
        Some(Self { name, config })
    }
}

impl Schedulers {
    /// Whether a set may use the scheduler.
    pub fn contains(&self, scheduler: Scheduler) -> bool {
        self.profiles.iter().any(|profile| profile.name == scheduler)
    }

    pub(super) fn read(section: &Section<'_>) -> Self {
        let read = section.items("profiles", SchedulerProfile::read);
        let mut profiles: Vec<SchedulerProfile> = vec![];
        for (at, profile) in read.iter().enumerate() {
            let Some(profile) = profile else { continue };
            if profiles.iter().any(|earlier| earlier.name == profile.name) {
                let field = section.path_of(&format!("profiles[{at}].name"));
                let value = profile.name.name().into();
                section.report(FieldError::duplicate(field, &value, "each scheduler may have one profile"));
            } else {
                profiles.push(profile.clone());
            }
        }
        if !profiles.iter().any(|profile| profile.name == Scheduler::Kube) {
            profiles.push(SchedulerProfile::of(Scheduler::Kube));
        }
        let default_profile = Self::default_profile(section, &read, &profiles);
        Self { profiles, default_profile }
    }

    fn default_profile(
        section: &Section<'_>,
        read: &[Option<SchedulerProfile>],
        profiles: &[SchedulerProfile],
    ) -> Scheduler {
        let name = section.enum_value("defaultProfileName", &Scheduler::ALL).unwrap_or_default();
        let is_configured = profiles.iter().any(|profile| profile.name == name);
        if read.is_empty() && !is_configured {
            section.warn("defaultProfileName", "has no effect without profiles: the default is default-scheduler");
            return Scheduler::Kube;
        }
        // An invalid profile has its own error.
        if !is_configured && read.iter().all(Option::is_some) {
            section.invalid("defaultProfileName", "must be the name of a profile; add it to profiles");
        }
        name
    }
}

/// Whether Grove uses the workload API of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeGangs {
    /// Yes, if the API server serves the workload API.
    #[default]
    Auto,
    /// No; for installations without topology-controller.
    Off,
}

impl NativeGangs {
    pub(super) const ALL: [(&'static str, Self); 2] = [("auto", Self::Auto), ("off", Self::Off)];
}
