//! End-to-end tests of Grove on a real control plane. `cargo xtask test` runs them.

#![allow(clippy::expect_used, clippy::panic, reason = "any failure fails the test")]

/// An inline module, so that Cargo does not build each file of `it/` as a test binary.
mod it {
    mod account_permissions;
    mod account_policy;
    mod autoscaling;
    mod bad_input;
    mod composition;
    mod controller_policy;
    mod crds;
    mod deletion;
    mod deletion_policies;
    mod deployment;
    mod dynamo_client;
    mod expansion;
    mod foreign_owners;
    mod groups;
    mod isolation;
    mod kubectl_wait;
    mod name_conflicts;
    mod objects;
    mod ownership;
    mod pods;
    mod policy;
    mod references;
    mod rejected_creates;
    mod rejected_indices;
    mod rolling_updates;
    mod scale;
    mod self_healing;
    mod template_access;
    mod topology;
    mod user_roles;
    mod without_webhook;

    /// Tests that disturb others and so start clusters of their own. `cargo xtask test --kubeconfig` skips them.
    mod own_cluster {
        mod admission;
        mod authorizer;
        mod certificate_repair;
        mod certificates;
        mod churn;
        mod clock_skew;
        mod compute_domains;
        mod connection_loss;
        mod default_minima;
        mod degraded;
        mod domain_daemons;
        mod dry_run;
        mod event_driven;
        mod failed_up;
        mod foreign_objects;
        mod formation;
        mod hostile;
        mod interface;
        mod kill_series;
        mod kills;
        mod leader_election;
        mod native_gangs;
        mod oversized_sets;
        mod pod_groups;
        mod referring_sets;
        mod resource_claims;
        mod restarts;
        mod restore;
        mod rotation;
        mod round_trip;
        mod startup;
        mod status_writers;
        mod steady_state;
        mod topologies;
        mod topology_outage;
        mod unauthenticated_clients;
        mod unreadable_objects;
        mod update_kills;
        mod webhook_kills;
    }
}
