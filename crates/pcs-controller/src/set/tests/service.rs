//! Edits of the headless Service: Grove corrects its own fields, and leaves those that the API server sets.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};

use super::{SET, change, executed, new, plan};
use crate::set::desired::SlimService;

#[track_caller]
fn check(edit: impl FnOnce(&mut ServiceSpec), expected: &Expect) {
    let mut observed = executed(new(SET));
    change::<SlimService>(&mut observed, "llm-0", |service: &mut SlimService| {
        edit(service.spec.get_or_insert_default());
    });
    expected.assert_eq(&plan(&observed).to_string());
}

/// Sets the fields that the API server sets.
fn stored(spec: &mut ServiceSpec) {
    spec.cluster_ips = Some(vec!["None".into()]);
    spec.session_affinity = Some("None".into());
    spec.type_ = Some("ClusterIP".into());
    spec.internal_traffic_policy = Some("Cluster".into());
    spec.ip_families = Some(vec!["IPv4".into()]);
    spec.ip_family_policy = Some("SingleStack".into());
}

#[test]
fn defaults_of_the_api_server_are_no_difference() {
    check(
        stored,
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn edited_fields_of_grove_are_corrected() {
    check(
        |spec| {
            stored(spec);
            spec.publish_not_ready_addresses = None;
            spec.selector.get_or_insert_default().insert("extra".into(), "x".into());
        },
        &expect![[r#"
            services: patch Service llm-0 {"spec":{"publishNotReadyAddresses":true,"selector":{"extra":null}}}
        "#]],
    );
}

#[test]
fn fields_that_grove_does_not_set_are_removed() {
    check(
        |spec| {
            stored(spec);
            spec.ports = Some(vec![ServicePort { port: 80, ..ServicePort::default() }]);
            spec.external_ips = Some(vec!["192.0.2.1".into()]);
            spec.session_affinity = Some("ClientIP".into());
        },
        &expect![[r#"
            services: patch Service llm-0 {"spec":{"externalIPs":null,"ports":null,"sessionAffinity":"None"}}
        "#]],
    );
}

#[test]
fn an_external_name_service_becomes_headless_again() {
    check(
        |spec| {
            stored(spec);
            (spec.type_, spec.external_name) = (Some("ExternalName".into()), Some("example.org".into()));
            (spec.cluster_ip, spec.cluster_ips) = (None, None);
        },
        &expect![[r#"
            services: patch Service llm-0 {"spec":{"clusterIP":"None","externalName":null,"type":"ClusterIP"}}
        "#]],
    );
}

#[test]
fn a_service_with_an_address_is_deleted_and_recreated() {
    check(
        |spec| {
            stored(spec);
            spec.cluster_ip = Some("10.0.0.7".into());
        },
        &expect![[r"
            services: delete Service llm-0
        "]],
    );
}
