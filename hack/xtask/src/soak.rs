//! `soak`: long runs of tests, with a seed and a count.

pub(crate) mod defects;
pub(crate) mod formation;

use crate::args::{
    Churn, ForeignObjects, Fuzz, Hostile, Kills, Races, Rehearsal, Rotation, SoakFolder, Source, SteadyState,
    Topologies, Writers,
};
use crate::bench::{self, machine, report};
use crate::interrupt::interrupted;
use crate::test::dev_clusters::DevClusters;
use crate::test::process_group;
use crate::test::{self, END_TO_END};
use crate::{services, workspace};
use anyhow::{Context, Result, bail};
use std::iter;
use webhook_server::webhook::Webhook;

const DIR: &str = "target/grove-soak";
/// The packages with fuzz tests. The profile is optimised and still checks arithmetic for overflow. One selection has both
/// packages, so Cargo compiles nothing twice.
const FUZZED: [&str; 8] =
    ["--profile", "soak", "--package", "grove-api-types", "--package", "webhook-server", "--lib", "--test=it"];
/// The package of `soak rehearsal`.
const REHEARSED: [&str; 5] = ["--profile", "soak", "--package", "grove-rehearsal", "--test=it"];
/// The name of the admission rules in `--of`, next to the names of the webhooks.
const RULES: &str = "rules";
/// The admission rules get this many times as many inputs as a webhook.
const RULES_FACTOR: u64 = 4;

/// Runs a long series of kills. Each `test` runs a short series with the same code.
pub(crate) async fn kills(source: &Source, args: Kills) -> Result<()> {
    let variables = vec![("GROVE_SOAK_KILLS", args.count.to_string()), ("GROVE_SOAK_SEED", args.seed.to_string())];
    let series = match &args {
        Kills { webhooks: true, .. } => "many_webhook_server_kills",
        Kills { native_gangs: true, .. } => "many_kills_with_native_gangs",
        Kills { compute_domains: true, .. } => "many_kills_of_both_controllers_leave_no_domain",
        Kills { resource_claims: true, .. } => "many_kills_of_both_controllers_leave_no_claim",
        Kills { startup: true, .. } => "many_kills_of_both_controllers_leave_no_identity",
        Kills { updates: true, .. } => "many_kills_of_both_controllers_do_not_disturb_updates",
        Kills { .. } => "many_kills_after_a_write",
    };
    run(source, args.folder, (series, variables)).await
}

/// Rotates certificates and restarts webhook servers for a minute. Each `test` runs a shorter time with the same code.
pub(crate) async fn rotation(source: &Source, args: Rotation) -> Result<()> {
    let Rotation { rotations, restarts, folder } = args;
    let variables =
        vec![("GROVE_SOAK_ROTATIONS", rotations.to_string()), ("GROVE_SOAK_RESTARTS", restarts.to_string())];
    run(source, folder, ("no_request_fails_during_many_rotations", variables)).await
}

/// Creates and deletes sets and namespaces. Each `test` runs two rounds with small sets.
pub(crate) async fn churn(source: &Source, args: Churn) -> Result<()> {
    let variables = vec![("GROVE_SOAK_ROUNDS", args.rounds.to_string())];
    run(source, args.folder, ("the_heap_does_not_grow_in_many_rounds", variables)).await
}

/// Changes sets while the scheduler binds their gangs. Each `test` runs a short series with the same code.
pub(crate) async fn races(source: &Source, args: Races) -> Result<()> {
    let variables = vec![("GROVE_SOAK_RACES", args.count.to_string()), ("GROVE_SOAK_SEED", args.seed.to_string())];
    let series = if args.topologies {
        "many_changes_of_the_topology_race_against_binding"
    } else {
        "many_races_against_binding_end_in_one_incarnation"
    };
    run(source, args.folder, (series, variables)).await
}

/// Waits until many sets and gangs run and the services stop writing. Each `test` creates fewer of them with the same code.
pub(crate) async fn steady_state(source: &Source, args: SteadyState) -> Result<()> {
    let variables = vec![("GROVE_SOAK_SETS", args.sets.to_string()), ("GROVE_SOAK_GANGS", args.gangs.to_string())];
    run(source, args.folder, ("::steady_state::many_settled_", variables)).await
}

/// Creates sets that refer to one topology, and counts the writes of its status. Each `test` creates fewer sets with the same code.
pub(crate) async fn topologies(source: &Source, args: Topologies) -> Result<()> {
    let variables = vec![("GROVE_SOAK_SETS", args.sets.to_string())];
    run(source, args.folder, ("many_new_sets_cause_few_status_writes_of_their_topology", variables)).await
}

/// Creates objects of another namespace with the names and the UIDs of those of a set. Each `test` creates fewer with the same code.
pub(crate) async fn foreign_objects(source: &Source, args: ForeignObjects) -> Result<()> {
    let variables = vec![("GROVE_SOAK_OBJECTS", args.objects.to_string())];
    run(source, args.folder, ("many_foreign_objects_change_nothing", variables)).await
}

/// Lets several writers write the conditions of one `PodGang`. Each `test` runs a short series with the same code.
pub(crate) async fn writers(source: &Source, args: Writers) -> Result<()> {
    let variables = vec![("GROVE_SOAK_ROUNDS", args.rounds.to_string())];
    run(source, args.folder, ("no_condition_is_lost_in_many_rounds", variables)).await
}

/// Measures a normal set beside hostile tenants, and writes the report, also if a threshold is not met.
pub(crate) async fn hostile(source: &Source, args: Hostile) -> Result<()> {
    bench::exec_optimised()?;
    // The test writes its figures to this file.
    let figures = report::folder(None)?.join("hostile-figures.md");
    // Figures of an earlier run must not become the report of this one.
    std::fs::write(&figures, "").with_context(|| format!("cannot write {}", figures.display()))?;
    let variables = vec![
        ("GROVE_SOAK_LARGE_PODS", args.large_pods.to_string()),
        ("GROVE_SOAK_SPEC_BYTES", args.spec_bytes.to_string()),
        ("GROVE_SOAK_GANGS", args.gangs.to_string()),
        ("GROVE_SOAK_GANG_PODS", args.gang_pods.to_string()),
        ("GROVE_SOAK_POD_GROUPS", args.pod_groups.to_string()),
        ("GROVE_SOAK_CLIQUES", args.cliques.to_string()),
        ("GROVE_SOAK_QUOTA_CLIQUES", args.quota_cliques.to_string()),
        ("GROVE_SOAK_POD_CLAIMS", args.pod_claims.to_string()),
        ("GROVE_SOAK_DENSE_SETS", args.dense_sets.to_string()),
        ("GROVE_SOAK_OF", args.of.join(",")),
        ("GROVE_SOAK_REPORT", figures.display().to_string()),
    ];
    let outcome = run(source, args.folder, ("a_normal_set_becomes_available_beside_hostile_tenants", variables)).await;
    let text = std::fs::read_to_string(&figures)?;
    if !text.is_empty() && args.of.is_empty() {
        let [machine, commit] = machine::describe_without_cluster()?;
        let conditions = format!("- {machine}\n- {commit}; the services are built with --release, the client is not\n");
        report::update_page(&report::folder(args.out.as_ref())?, "hostile", &(conditions + &text))?;
    }
    outcome
}

/// An ignored test and the environment variables that it reads.
type IgnoredTest = (&'static str, Vec<(&'static str, String)>);

/// Runs one ignored test, which starts a dev cluster of its own.
async fn run(source: &Source, folder: SoakFolder, (name, variables): IgnoredTest) -> Result<()> {
    if source.kubeconfig.is_some() {
        bail!("this test starts and ends services, so it needs a dev cluster; omit --kubeconfig");
    }
    services::build().await?;
    let clusters = DevClusters::prepare(folder.dir.unwrap_or_else(|| workspace::root().join(DIR))).await?;
    let mut tests = test::cargo_test(&END_TO_END, Some(name));
    tests.args(["--ignored", "--nocapture"]);
    tests.env("GROVE_TEST_DIR", &clusters.shared).env("GROVE_XTASK", workspace::binary("xtask")?);
    tests.envs(variables).envs(test::binary_variables(source));
    let outcome = tokio::select! {
        passed = process_group::run(tests) => passed,
        reason = interrupted() => Err(reason),
    };
    let ended = clusters.end_own().await;
    if !outcome? {
        bail!("the series failed; see the output above, and the logs in the folder of the dev cluster");
    }
    ended.and(clusters.check_for_panics())
}

/// Explores the updates of sets from very many states. Each `test` explores fewer with the same code.
pub(crate) async fn rehearsal(args: &Rehearsal) -> Result<()> {
    let mut tests = test::cargo_test(&REHEARSED, Some("very_many_states"));
    tests.args(["--ignored", "--nocapture"]);
    tests.env("GROVE_REHEARSAL_STEPS", args.steps.to_string()).env("GROVE_REHEARSAL_SEED", args.seed.to_string());
    let passed = tokio::select! {
        passed = process_group::run(tests) => passed?,
        reason = interrupted() => return Err(reason),
    };
    if !passed {
        bail!("an update breaks a promise; the output above has the promise, the seed and the last steps");
    }
    Ok(())
}

/// Runs long series of random inputs. Each `test` runs short series with the same code.
pub(crate) async fn fuzz(args: &Fuzz) -> Result<()> {
    let all: Vec<&str> = iter::once(RULES).chain(Webhook::ALL.map(Webhook::name)).collect();
    if let Some(unknown) = args.of.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("--of {unknown:?} is unknown; --of takes {}", all.join(", "));
    }
    for name in all.into_iter().filter(|name| args.of.is_empty() || args.of.iter().any(|of| of == name)) {
        let inputs = if name == RULES { args.inputs.saturating_mul(RULES_FACTOR) } else { args.inputs };
        let mut tests = test::cargo_test(&FUZZED, Some("many_inputs"));
        tests.args(["--ignored", "--nocapture"]);
        tests.env("GROVE_FUZZ_INPUTS", inputs.to_string()).env("GROVE_FUZZ_SEED", args.seed.to_string());
        tests.env("GROVE_FUZZ_OF", name);
        let passed = tokio::select! {
            passed = process_group::run(tests) => passed?,
            reason = interrupted() => return Err(reason),
        };
        if !passed {
            bail!("an input violates an invariant; the output above has the invariant, the input and its seed");
        }
    }
    Ok(())
}
