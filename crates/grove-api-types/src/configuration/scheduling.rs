//! `scheduler` and `nativeGangs`: the schedulers that sets may choose from.

use serde_json::{Map, Value};

use super::document::Section;
use super::problem::Problem;
use crate::scheduler::Scheduler;

/// The schedulers that sets may choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedulers {
    /// `profiles`; Kubernetes' own is always among them.
    pub profiles: Vec<SchedulerProfile>,
    /// What a clique without a `schedulerName` gets.
    pub default_profile: Scheduler,
}

/// One scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerProfile {
    /// Which.
    pub name: Scheduler,
    /// Its own settings, as written.
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
        let config = section.anything("config").cloned().unwrap_or_default();
        if ![Value::Null, Value::Object(Map::new())].contains(&config) {
            section.warn("config", "has no effect, no service sets a scheduler up");
        }
        if section.text("name").unwrap_or_default().is_empty() {
            section.report(Problem::required(section.path_of("name"), "scheduler profile name is required"));
        }
        let name = section.one_of("name", &Scheduler::ALL)?;
        if name.has_pod_groups_of_its_own() {
            section.warn("name", "pods are given to it, but no service of this version makes its PodGroups yet");
        }
        Some(Self { name, config })
    }
}

impl Schedulers {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let read = section.items("profiles", SchedulerProfile::read);
        let mut profiles: Vec<SchedulerProfile> = vec![];
        for (at, profile) in read.iter().enumerate() {
            let Some(profile) = profile else { continue };
            if profiles.iter().any(|earlier| earlier.name == profile.name) {
                let field = section.path_of(&format!("profiles[{at}].name"));
                let problem = Problem::duplicate(field, profile.name.name().into(), "name each scheduler once");
                section.report(problem);
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
        let name = section.one_of("defaultProfileName", &Scheduler::ALL).unwrap_or_default();
        let is_there = profiles.iter().any(|profile| profile.name == name);
        if read.is_empty() && !is_there {
            section.warn("defaultProfileName", "has no effect without profiles, default-scheduler is the default");
            return Scheduler::Kube;
        }
        // What is wrong with a profile has been told already.
        if !is_there && read.iter().all(Option::is_some) {
            section.invalid("defaultProfileName", "must be one of the configured profiles; add it to profiles");
        }
        name
    }
}

/// Whether Kubernetes' own gangs are used where the API server has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeGangs {
    /// They are, where it has.
    #[default]
    Auto,
    /// They are not; for installations without topology-controller.
    Off,
}

impl NativeGangs {
    pub(super) const ALL: [(&'static str, Self); 2] = [("auto", Self::Auto), ("off", Self::Off)];
}
