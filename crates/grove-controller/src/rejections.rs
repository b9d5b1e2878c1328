//! The message of a condition about rejected writes, with the texts of the API server: quotas, limit ranges, Pod Security, webhooks,
//! missing permissions.

use grove_api_types::conditions::available;
use grove_runtime::api_error::ApiError;
use kube::Resource;

use crate::{
    create_backoff::BackedOffCreates,
    events::normalized_message,
    executor::ExecutionResult,
    group_kind::{group_kind_of, is_of_group_kind},
    plan::Target,
};

/// The message contains this many different reasons; it only counts the others.
const MAX_NAMED: usize = 3;
/// The message counts at most this many further objects. So a status does not change with each of thousands of rejections.
const MAX_COUNTED: usize = 1000;

/// How the message describes the objects of writes with the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedObjects {
    /// By their number, because they are alike and users do not know their names: `2 Pods`.
    Counted,
    /// By the first of them, and the number of the others: `ConfigMap a (and 1 more)`.
    Named,
}

/// Rejected writes with the same reason.
struct RejectionGroup<'a> {
    verb: &'static str,
    first: &'a Target,
    error: &'a ApiError,
    /// The message of the API server without the parts that differ from object to object.
    normalized: String,
    count: usize,
}

/// The reason and the message for a condition about the failed writes: the creates that wait for their retry, and the steps that failed
/// in this reconcile. Each reason of the API server appears once. `None` if no write failed.
pub fn rejection_message(
    result: &ExecutionResult,
    backed_off: &BackedOffCreates,
    objects: RejectedObjects,
) -> Option<(&'static str, String)> {
    grouped_message(backed_off.failed_writes(result), objects)
}

/// Like [`rejection_message`], about the objects of kind `K` only.
pub fn rejection_message_of_kind<K: Resource<DynamicType = ()>>(
    result: &ExecutionResult,
    backed_off: &BackedOffCreates,
) -> Option<String> {
    let kind = group_kind_of::<K>();
    let of_kind = backed_off.failed_writes(result).filter(|(_, target, _)| is_of_group_kind(&target.resource, &kind));
    grouped_message(of_kind, RejectedObjects::Named).map(|(_, message)| message)
}

fn grouped_message<'a>(
    writes: impl Iterator<Item = (&'static str, &'a Target, &'a ApiError)>,
    objects: RejectedObjects,
) -> Option<(&'static str, String)> {
    let mut groups: Vec<RejectionGroup<'_>> = Vec::new();
    for (verb, target, error) in writes {
        let normalized = normalized_message(without_object_name(&target.name, error));
        let is_same = |group: &&mut RejectionGroup<'_>| {
            (group.verb, &group.first.resource.kind, &group.normalized) == (verb, &target.resource.kind, &normalized)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.count += 1,
            None => groups.push(RejectionGroup { verb, first: target, error, normalized, count: 1 }),
        }
    }
    let first_verb = groups.first()?.verb;
    let more = match groups.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        1 => "; and 1 more reason".to_owned(),
        more => format!("; and {more} more reasons"),
    };
    let named: Vec<_> = groups.iter().take(MAX_NAMED).map(|group| group.describe(objects)).collect();
    Some((available::failed(first_verb), format!("the API server rejected {}{more}", named.join("; "))))
}

impl RejectionGroup<'_> {
    fn describe(&self, objects: RejectedObjects) -> String {
        let Self { verb, first, error, normalized: _, count } = self;
        let (kind, message) = (&first.resource.kind, without_object_name(&first.name, error));
        let remedy = remedy(error).map(|remedy| format!("; {remedy}")).unwrap_or_default();
        match (objects, count) {
            (RejectedObjects::Counted, 1) => format!("the {verb} of 1 {kind}: {message}{remedy}"),
            (RejectedObjects::Counted, count) => format!("the {verb} of {count} {kind}s: {message}{remedy}"),
            (RejectedObjects::Named, 1) => format!("the {verb} of {first}: {message}{remedy}"),
            (RejectedObjects::Named, count) => {
                let limit = if count - 1 > MAX_COUNTED { "more than " } else { "" };
                let more = (count - 1).min(MAX_COUNTED);
                format!("the {verb} of {first} (and {limit}{more} more): {message}{remedy}")
            }
        }
    }
}

/// The message of the API server without the name of the object at its beginning.
fn without_object_name<'a>(name: &str, error: &'a ApiError) -> &'a str {
    let prefixes = ["forbidden", "invalid"].map(|reason| format!("\"{name}\" is {reason}: "));
    let rest = prefixes.iter().find_map(|prefix| error.message.split_once(prefix.as_str()));
    rest.map_or(error.message.as_str(), |(_, message)| message)
}

fn remedy(error: &ApiError) -> Option<&'static str> {
    let contains = |text: &str| error.code == 403 && error.message.contains(text);
    if error.is_quota_rejection() && contains("exceeded quota: ") {
        Some("raise the quota or release some of it; Grove then creates the missing objects")
    } else if contains("cannot") && contains("User \"system:serviceaccount:") {
        Some("apply the rules of this service in deploy/base; Grove then retries")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    const QUOTA: &str = "exceeded quota: small";
    const PERMISSION: &str = "configmaps is forbidden: User \"system:serviceaccount:n:s\" cannot create resource";

    /// The message about rejected creates: each with the name of the object and the message of the API server.
    fn message(rejected: &[(&str, &str)], objects: RejectedObjects) -> Option<String> {
        let rejected = rejected.iter().map(|(name, message)| {
            let target = Target { name: (*name).to_owned(), ..Target::of(&ConfigMap::default()) };
            (target, ApiError::new(403, "Forbidden", *message))
        });
        let backed_off = BackedOffCreates { children: rejected.collect(), ..BackedOffCreates::default() };
        let message = rejection_message(&ExecutionResult::default(), &backed_off, objects);
        message.map(|(reason, message)| format!("{reason}: {message}"))
    }

    #[test]
    fn each_reason_is_in_the_message_once_with_its_remedy() {
        let of = |name: &str| format!("configmaps \"{name}\" is forbidden: {QUOTA}");
        let (first, second) = (of("a-1"), of("a-2"));
        let rejected = [("a-1", first.as_str()), ("a-2", &second), ("a-3", "x"), ("a-4", PERMISSION)];
        let counted = "FailedCreate: the API server rejected the create of 2 ConfigMaps: exceeded quota: small; raise the \
                       quota or release some of it; Grove then creates the missing objects; the create of 1 ConfigMap: x; \
                       the create of 1 ConfigMap: configmaps is forbidden: User \"system:serviceaccount:n:s\" cannot create \
                       resource; apply the rules of this service in deploy/base; Grove then retries";
        assert_eq!(message(&rejected, RejectedObjects::Counted).as_deref(), Some(counted));
        let named = counted.replace("2 ConfigMaps", "ConfigMap a-1 (and 1 more)");
        let named = named.replacen("1 ConfigMap:", "ConfigMap a-3:", 1).replacen("1 ConfigMap:", "ConfigMap a-4:", 1);
        assert_eq!(message(&rejected, RejectedObjects::Named), Some(named));
    }

    #[test]
    fn only_the_quota_of_a_namespace_has_a_remedy() {
        let remedy = |message: &str| remedy(&ApiError::new(403, "Forbidden", message)).is_some();
        assert!(remedy("configmaps \"a\" is forbidden: exceeded quota: small"));
        assert!(!remedy("configmaps \"a\" is forbidden: status unknown for quota: small"));
        assert!(!remedy("admission webhook \"w\" denied the request: team exceeded quota: 8 GPUs"));
    }

    #[test]
    fn a_message_counts_a_limited_number_of_rejections() {
        let message = |count: usize| message(&vec![("a", "no"); count], RejectedObjects::Named);
        let expected = |more: &str| {
            Some(format!("FailedCreate: the API server rejected the create of ConfigMap a (and {more} more): no"))
        };
        assert_eq!(message(1001), expected("1000"));
        assert_eq!([1002, 5000].map(message), [expected("more than 1000"), expected("more than 1000")]);
    }

    #[test]
    fn the_message_names_three_reasons_and_counts_the_others() {
        let rejected = ["u", "v", "w", "x", "y"].map(|message| ("a", message));
        for (count, end) in [(3, "ConfigMap: w"), (4, "; and 1 more reason"), (5, "; and 2 more reasons")] {
            let message = message(&rejected[..count], RejectedObjects::Counted).unwrap();
            assert!(message.ends_with(end), "{message}");
        }
        assert_eq!(message(&[], RejectedObjects::Counted), None);
    }
}
