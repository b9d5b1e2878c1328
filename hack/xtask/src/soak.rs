//! `soak`: the tests that take too long for every change, with a seed and a count.

use crate::args::{Fuzz, Kills, Rotation, Source};
use crate::interrupt::interrupted;
use crate::test::group::passes;
use crate::test::planes::Planes;
use crate::test::{self, END_TO_END};
use crate::workspace;
use anyhow::{Result, bail};
use std::iter;
use std::path::PathBuf;
use webhook_server::webhook::Webhook;

const DIR: &str = "target/grove-soak";
/// How Cargo chooses what is fuzzed; optimised, and still checking every number for overflow. Both at once, so that nothing
/// is compiled twice.
const FUZZED: [&str; 8] =
    ["--profile", "soak", "--package", "grove-api-types", "--package", "webhook-server", "--lib", "--test=admission"];
/// What the rules by themselves are called, beside the names of the webhooks.
const RULES: &str = "rules";
/// So many times as many inputs as a webhook.
const OF_RULES: u64 = 4;

/// A long series of kills, by the same code as the short one that every `test` has.
pub(crate) async fn kills(source: &Source, wish: Kills) -> Result<()> {
    let counts = [("GROVE_SOAK_KILLS", wish.count.to_string()), ("GROVE_SOAK_SEED", wish.seed.to_string())];
    let series = if wish.webhooks { "many_webhook_server_kills" } else { "many_kills_after_a_write" };
    run(source, wish.dir, (series, counts)).await
}

/// A minute of new certificates and restarts, by the same code as the short one that every `test` has.
pub(crate) async fn rotation(source: &Source, wish: Rotation) -> Result<()> {
    let Rotation { rotations, restarts, dir } = wish;
    let counts = [("GROVE_SOAK_ROTATIONS", rotations.to_string()), ("GROVE_SOAK_RESTARTS", restarts.to_string())];
    run(source, dir, ("no_request_fails_during_many_rotations", counts)).await
}

/// Runs one ignored test, which brings up a plane of its own.
async fn run(source: &Source, dir: Option<PathBuf>, (name, counts): (&str, [(&str, String); 2])) -> Result<()> {
    if source.kubeconfig.is_some() {
        bail!("services are killed here, so the control plane is one of its own; leave --kubeconfig out");
    }
    let planes = Planes::take(dir.unwrap_or_else(|| workspace::root().join(DIR))).await?;
    let mut tests = test::cargo_test(&END_TO_END, Some(name));
    tests.args(["--ignored", "--nocapture"]);
    tests.env("GROVE_TEST_DIR", &planes.shared).env("GROVE_XTASK", workspace::binary("xtask")?);
    tests.envs(counts).envs(test::of_source(source));
    let outcome = tokio::select! {
        passed = passes(tests) => passed,
        reason = interrupted() => Err(reason),
    };
    let ended = planes.end_own().await;
    if !outcome? {
        bail!("the series did not end well; see above for what was done, and in the logs of the plane's folder");
    }
    ended.and(planes.nothing_panicked())
}

/// Long series of inputs, by the same code as the short ones that every `test` has.
pub(crate) async fn fuzz(wish: &Fuzz) -> Result<()> {
    let all: Vec<&str> = iter::once(RULES).chain(Webhook::ALL.map(Webhook::name)).collect();
    if let Some(unknown) = wish.of.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("nothing called {unknown:?} is fuzzed; --of takes {}", all.join(", "));
    }
    for name in all.into_iter().filter(|name| wish.of.is_empty() || wish.of.iter().any(|of| of == name)) {
        let inputs = if name == RULES { wish.inputs.saturating_mul(OF_RULES) } else { wish.inputs };
        let mut tests = test::cargo_test(&FUZZED, Some("many_inputs"));
        tests.args(["--ignored", "--nocapture"]);
        tests.env("GROVE_FUZZ_INPUTS", inputs.to_string()).env("GROVE_FUZZ_SEED", wish.seed.to_string());
        tests.env("GROVE_FUZZ_OF", name);
        let passed = tokio::select! {
            passed = passes(tests) => passed?,
            reason = interrupted() => return Err(reason),
        };
        if !passed {
            bail!("an input breaks a law; see above for the law, the input and the seed that makes it again");
        }
    }
    Ok(())
}
