//! `soak`: the tests that take too long for every change, with a seed and a count.

use crate::args::{Fuzz, Kills, Source};
use crate::interrupt::interrupted;
use crate::test::group::passes;
use crate::test::planes::Planes;
use crate::test::{self, END_TO_END};
use crate::workspace;
use anyhow::{Result, bail};

const DIR: &str = "target/grove-soak";
/// What is fuzzed, as Cargo chooses it; optimised, and still checking every number for overflow.
const FUZZED: [&str; 6] = ["--profile", "soak", "--package", "grove-api-types", "--test", "admission"];

/// A long series of kills, by the same code as the short one that every `test` has.
pub(crate) async fn kills(source: &Source, wish: Kills) -> Result<()> {
    if source.kubeconfig.is_some() {
        bail!("services are killed here, so the control plane is one of its own; leave --kubeconfig out");
    }
    let planes = Planes::take(wish.dir.unwrap_or_else(|| workspace::root().join(DIR))).await?;
    let mut tests = test::cargo_test(&END_TO_END, Some("many_kills"));
    tests.args(["--ignored", "--nocapture"]);
    tests.env("GROVE_TEST_DIR", &planes.shared).env("GROVE_XTASK", workspace::binary("xtask")?);
    tests.env("GROVE_SOAK_KILLS", wish.count.to_string()).env("GROVE_SOAK_SEED", wish.seed.to_string());
    tests.envs(test::of_source(source));
    let outcome = tokio::select! {
        passed = passes(tests) => passed,
        reason = interrupted() => Err(reason),
    };
    let ended = planes.end_own().await;
    if !outcome? {
        bail!(
            "a series of kills did not end well; see above for what was killed, and in the logs of the plane's folder"
        );
    }
    ended.and(planes.nothing_panicked())
}

/// A long series of inputs, by the same code as the short one that every `test` has.
pub(crate) async fn fuzz(wish: &Fuzz) -> Result<()> {
    let mut tests = test::cargo_test(&FUZZED, Some("many_inputs"));
    tests.args(["--ignored", "--nocapture"]);
    tests.env("GROVE_FUZZ_INPUTS", wish.inputs.to_string()).env("GROVE_FUZZ_SEED", wish.seed.to_string());
    let passed = tokio::select! {
        passed = passes(tests) => passed?,
        reason = interrupted() => return Err(reason),
    };
    if !passed {
        bail!("an input breaks a law; see above for the law, the input and the seed that makes it again");
    }
    Ok(())
}
