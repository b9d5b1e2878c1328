//! The events about an executed stage, and the warnings of a plan.

use grove_api_types::text::join_names;
use grove_runtime::api_error::ApiError;
use kube::runtime::events::{Event, EventType};

use super::execution_result::Effect;
use crate::plan::{Create, EventNotes, NormalEvent, Stage, StageEvent, Step, WarningEvent};

/// The maximum number of names in a note. The note counts the others.
const MAX_NAMED: usize = 10;

/// For each stage event at most one event about success and one about failure. Superseded steps cause no event. Neither do creates in
/// a terminating namespace: users deleted it, and can correct nothing.
pub(super) fn stage_events(stage: &Stage, results: &[(&Step, Result<Effect, ApiError>)]) -> Vec<Event> {
    stage.events.iter().flat_map(|stage_event| events_of(stage, stage_event, results)).collect()
}

fn events_of(
    stage: &Stage,
    StageEvent { kind, success, failure, verb, notes }: &StageEvent,
    results: &[(&Step, Result<Effect, ApiError>)],
) -> Vec<Event> {
    let is_selected = |step: &Step| kind.as_ref().is_none_or(|kind| step.target().resource.kind == *kind);
    let steps = || results.iter().map(|(step, result)| (*step, result)).filter(|(step, _)| is_selected(step));
    let is_reported = |step: &Step| match notes {
        EventNotes::ByVerb => true,
        EventNotes::OfCreates { .. } => matches!(step, Step::Create(_)),
    };
    let applied = steps().filter(|(step, result)| is_reported(step) && result.as_ref().is_ok_and(Effect::is_own));
    let applied: Vec<_> = applied.map(|(step, _)| step).collect();
    let rejected = steps().filter_map(|(step, result)| Some((step, result.as_ref().err()?)));
    let rejected: Vec<_> = rejected.filter(|(_, error)| !error.is_namespace_terminating).collect();
    let mut events = vec![];
    if let (Some(first), Some(success)) = (applied.first(), success) {
        let plural = if applied.len() > 1 { "s" } else { "" };
        let names: Vec<_> = applied.iter().map(|step| step.target().name.as_str()).collect();
        let (kind, names) = (&first.target().resource.kind, join_names(&names, MAX_NAMED));
        let note = match notes {
            EventNotes::ByVerb => format!("{verb} {kind}{plural}: {names}"),
            EventNotes::OfCreates { .. } => format!("{kind}{plural} {names} created"),
        };
        events.push(event(stage.name, EventType::Normal, success, &note));
    }
    if let Some((step, rejection)) = rejected.first() {
        let more = if rejected.len() > 1 { format!(" (and {} more)", rejected.len() - 1) } else { String::new() };
        let note = format!("{}: {}{more}", failed_step(step, *notes), rejection.message);
        events.push(event(stage.name, EventType::Warning, failure, &note));
    }
    events
}

/// The first words of a note about a failed step.
fn failed_step(step: &Step, notes: EventNotes) -> String {
    let replica = match (step, notes) {
        (Step::Create(Create { target: _, object }), EventNotes::OfCreates { replica_label }) => {
            object.value()["metadata"]["labels"][replica_label].as_str().map(str::to_owned)
        }
        (Step::Create(_) | Step::Patch(_) | Step::Delete(_) | Step::Adopt(_), _) => None,
    };
    match replica {
        Some(replica) => format!("Failed to create {} for replica {replica}", step.target().resource.kind),
        None => format!("{} {}", step.verb(), step.target()),
    }
}

/// The event about a warning of a plan.
pub(super) fn warning_event(WarningEvent { reason, note }: &WarningEvent) -> Event {
    event("reconcile", EventType::Warning, reason, note)
}

/// The normal event of a plan.
pub(super) fn normal_event(NormalEvent { reason, note }: &NormalEvent) -> Event {
    event("reconcile", EventType::Normal, reason, note)
}

fn event(action: &str, type_: EventType, reason: &str, note: &str) -> Event {
    // The API server rejects longer notes.
    let note = note.chars().take(1000).collect();
    Event { type_, reason: reason.into(), note: Some(note), action: action.into(), secondary: None }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    fn stage(count: usize) -> Stage {
        let steps = (0..count).map(|nth| {
            let mut object = ConfigMap::default();
            object.metadata.name = Some(format!("m{nth}"));
            Step::create(&object)
        });
        Stage::new("maps", steps).with_event("MapsCreated", "MapsFailed", "Created")
    }

    /// Type, reason and note of an event.
    fn text(Event { type_, reason, note, .. }: Event) -> String {
        format!("{type_:?} {reason} {}", note.unwrap_or_default())
    }

    fn published(stage: &Stage, results: &[Result<Effect, ApiError>]) -> Vec<String> {
        let executed: Vec<_> = stage.steps.iter().zip(results.iter().cloned()).collect();
        stage_events(stage, &executed).into_iter().map(text).collect()
    }

    #[test]
    fn a_long_list_of_names_is_shortened() {
        let results = vec![Ok(Effect::Applied); 12];
        let expected = "Normal MapsCreated Created ConfigMaps: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9 and 2 more";
        assert_eq!(published(&stage(12), &results), [expected]);
    }

    #[test]
    fn a_partly_rejected_stage_publishes_its_success_and_the_message_of_the_server() {
        let rejection = ApiError::new(403, "Forbidden", "exceeded quota");
        let results = [Ok(Effect::Applied), Err(rejection.clone()), Err(rejection), Ok(Effect::Superseded)];
        let expected = [
            "Normal MapsCreated Created ConfigMap: m0",
            "Warning MapsFailed create ConfigMap m1: exceeded quota (and 1 more)",
        ];
        assert_eq!(published(&stage(4), &results), expected);
    }

    #[test]
    fn events_about_creates_name_the_objects_first_and_the_replica_of_a_rejected_one() {
        let mut stage = stage(3).with_event_notes(EventNotes::OfCreates { replica_label: "replica" });
        let mut labelled = ConfigMap::default();
        labelled.metadata.name = Some("r".into());
        labelled.metadata.labels = Some([("replica".to_owned(), "2".to_owned())].into());
        stage.steps.push(Step::create(&labelled));
        stage.steps.push(Step::merge_patch(&labelled, serde_json::json!({})));
        let rejection = Err(ApiError::new(403, "Forbidden", "exceeded quota"));
        let applied = Ok(Effect::Applied);
        let results = [applied.clone(), applied.clone(), Ok(Effect::Superseded), rejection.clone(), applied.clone()];
        let success = "Normal MapsCreated ConfigMaps m0, m1 created";
        let failure = "Warning MapsFailed Failed to create ConfigMap for replica 2: exceeded quota";
        assert_eq!(published(&stage, &results), [success, failure]);
        let none = || Ok(Effect::Superseded);
        assert_eq!(published(&stage, &[none(), none(), none(), none(), applied]), Vec::<String>::new(), "a patch");
        let results = [rejection.clone(), none(), none(), none(), rejection];
        let failure = "Warning MapsFailed create ConfigMap m0: exceeded quota (and 1 more)";
        assert_eq!(published(&stage, &results), [failure]);
    }

    #[test]
    fn a_stage_with_several_kinds_publishes_one_event_per_kind() {
        let mut secret = Secret::default();
        secret.metadata.name = Some("s".into());
        let mut mixed = Stage { events: vec![], ..stage(2) };
        mixed.steps.push(Step::create(&secret));
        let mixed = mixed.with_event_for_kind::<Secret>("SecretsCreated", "SecretsFailed", "Created");
        let mixed = mixed.with_event_for_kind::<ConfigMap>("MapsCreated", "MapsFailed", "Created");
        let events = published(&mixed, &[Ok(Effect::Applied), Ok(Effect::Applied), Ok(Effect::Applied)]);
        assert_eq!(
            events,
            ["Normal SecretsCreated Created Secret: s", "Normal MapsCreated Created ConfigMaps: m0, m1"]
        );
    }

    #[test]
    fn a_create_in_a_terminating_namespace_publishes_no_warning() {
        let quota = ApiError::new(403, "Forbidden", "exceeded quota");
        let terminating = ApiError { is_namespace_terminating: true, ..quota.clone() };
        assert_eq!(published(&stage(1), &[Err(terminating.clone())]), Vec::<String>::new());
        let others = ["Warning MapsFailed create ConfigMap m1: exceeded quota"];
        assert_eq!(published(&stage(2), &[Err(terminating), Err(quota)]), others);
    }

    #[test]
    fn superseded_steps_and_stages_without_events_publish_nothing() {
        assert_eq!(published(&stage(1), &[Ok(Effect::Superseded)]), Vec::<String>::new());
        let silent = Stage { events: vec![], ..stage(1) };
        assert_eq!(published(&silent, &[Ok(Effect::Applied)]), Vec::<String>::new());
    }

    #[test]
    fn a_plan_publishes_its_warnings_as_warnings_and_its_other_events_as_normal_events() {
        let warning = WarningEvent { reason: "MapsFailed", note: "the name is in use".to_owned() };
        assert_eq!(text(warning_event(&warning)), "Warning MapsFailed the name is in use");
        let normal = NormalEvent { reason: "MapsInSync", note: "both are equal".to_owned() };
        assert_eq!(text(normal_event(&normal)), "Normal MapsInSync both are equal");
    }
}
