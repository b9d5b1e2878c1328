//! A fuzz runner on top of proptest. Each input has its own seed, so that a single input can be reproduced, and a failing input is
//! shrunk to a minimal one.
//!
//! A check gets the input and returns the invariant that the input violates, if any. A panic and a hang are violations too.

use std::fmt::Debug;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::Value;

use crate::edits::{byte_edits, edited, edited_bytes, edits, pick};

/// The limit for the growth of memory after the first round of a long series. Allocators keep some freed memory.
const MAX_MEMORY_GROWTH: u64 = 16 << 20;
/// The time limit of one input. Typical inputs take a millisecond; the limit also holds on a machine that stalls for minutes.
const HANG: Duration = Duration::from_mins(10);
/// The limits for the search of a minimal failing input.
const MAX_SHRINK_STEPS: u32 = 10_000;
const MAX_SHRINK_TIME: Duration = Duration::from_mins(1);

/// The number of inputs of a series, and the first seed.
#[derive(Clone, Copy, Debug)]
pub struct FuzzConfig {
    /// The number of inputs.
    pub inputs: u64,
    /// The seed of the first input; each further input has the next seed.
    pub seed: u64,
}

impl FuzzConfig {
    /// The values of `GROVE_FUZZ_INPUTS` and `GROVE_FUZZ_SEED`, with the defaults `inputs` and 1.
    #[expect(clippy::disallowed_methods, reason = "a test has no command line")]
    pub fn from_env(inputs: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Self { inputs: number("GROVE_FUZZ_INPUTS").unwrap_or(inputs), seed: number("GROVE_FUZZ_SEED").unwrap_or(1) }
    }
}

/// Whether `GROVE_FUZZ_OF` selects this series. Without the variable all series are selected.
#[expect(clippy::disallowed_methods, reason = "a test has no command line")]
pub fn is_selected(name: &str) -> bool {
    std::env::var("GROVE_FUZZ_OF").map_or(true, |selected| selected == name)
}

/// Prints the progress of a long series after each round, with the seed at which a later run can continue.
///
/// # Panics
/// If the memory grows.
pub fn progress_printer(name: &str, config: FuzzConfig) -> impl FnMut(&FuzzStats) {
    let (start, mut first) = (Instant::now(), None);
    move |stats| {
        let FuzzStats { inputs, valid, slowest: (longest, seed), memory } = stats;
        let (next, took, megabytes) = (config.seed + inputs, start.elapsed().as_secs(), memory >> 20);
        println!(
            "{name}: {inputs} inputs in {took} s, {valid} valid; the slowest took {longest:?} (seed {seed}); memory \
             {megabytes} MB; to continue: --of {name} --seed {next}"
        );
        let first = *first.get_or_insert(*memory);
        assert!(*memory <= first + MAX_MEMORY_GROWTH, "{name}: memory grew from {first} to {memory} bytes");
    }
}

/// The statistics of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FuzzStats {
    /// The number of inputs.
    pub inputs: u64,
    /// The number of inputs that the checks report as valid.
    pub valid: u64,
    /// The longest time of one input, and its seed.
    pub slowest: (Duration, u64),
    /// The largest resident memory in bytes; 0 if the system does not report it.
    pub memory: u64,
}

/// An input that violates an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzFailure {
    /// The seed of the input.
    pub seed: u64,
    /// The violated invariant.
    pub violation: String,
    /// The minimal input, after shrinking.
    pub minimal_input: String,
}

impl FuzzFailure {
    /// The message of a failing test, with the command that reproduces the failure. `name` is the name of the series.
    pub fn report(&self, name: &str) -> String {
        let Self { seed, violation, minimal_input } = self;
        format!(
            "{name}, seed {seed}: {violation}\nagain: cargo xtask soak fuzz --of {name} --inputs 1 --seed {seed}\nminimal \
             input:\n{minimal_input}\n"
        )
    }
}

/// Bytes that are mostly JSON. `Debug` shows them as text.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonBytes(pub Vec<u8>);

impl Debug for JsonBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// Inputs from valid objects: nine of ten are edited JSON, the others edited bytes.
pub fn edited_objects(objects: &[Value]) -> impl Strategy<Value = JsonBytes> + use<> {
    let (of_json, of_bytes) = (objects.to_vec(), objects.to_vec());
    let object = |objects: &[Value], index: &Index| pick(index, objects).cloned().unwrap_or_default();
    prop_oneof![
        9 => (any::<Index>(), edits()).prop_map(move |(index, edits)| {
            JsonBytes(edited(&object(&of_json, &index), &edits).to_string().into_bytes())
        }),
        1 => (any::<Index>(), byte_edits()).prop_map(move |(index, edits)| {
            JsonBytes(edited_bytes(object(&of_bytes, &index).to_string().as_bytes(), &edits))
        }),
    ]
}

/// The number of inputs between two progress reports.
const ROUND: u64 = 100_000;

/// Checks the inputs of a series, on all cores. `check` gets the seed and the input, and returns whether the input is valid, or the
/// invariant that it violates. `on_progress` runs after each round; then all seeds before the next round are checked. A hang ends
/// the process, and its seed is the last output.
///
/// # Errors
/// The first input of a core that violates an invariant, shrunk.
pub fn run<S>(
    config: FuzzConfig,
    strategy: impl Fn() -> S + Sync,
    check: impl Fn(u64, &S::Value) -> Result<bool, String> + Sync,
    mut on_progress: impl FnMut(&FuzzStats),
) -> Result<FuzzStats, FuzzFailure>
where
    S: Strategy,
{
    let mut stats = FuzzStats::default();
    let cores = thread::available_parallelism().map_or(1, |cores| u64::try_from(cores.get()).unwrap_or(1));
    let (mut next, end) = (config.seed, config.seed.saturating_add(config.inputs));
    let current_inputs: Vec<_> = (0..cores).map(|_| CurrentInput::default()).collect();
    while next < end {
        let round = next..end.min(next + ROUND);
        let per_core = (round.end - round.start).div_ceil(cores).max(1);
        let run_core = |core: u64, current: &CurrentInput| {
            let begin = round.end.min(round.start + core * per_core);
            let result = run_seeds(begin..round.end.min(begin + per_core), current, &strategy(), &check);
            current.set(None);
            result
        };
        for current in &current_inputs {
            current.set(Some(next));
        }
        let run_core = &run_core;
        let results: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = (0..)
                .zip(&current_inputs)
                .map(|(core, current)| scope.spawn(move || run_core(core, current)))
                .collect();
            scope.spawn(|| watch_for_hangs(&current_inputs));
            running.into_iter().filter_map(|running| running.join().ok()).collect()
        });
        for result in results {
            let of_core = result?;
            stats.inputs += of_core.inputs;
            stats.valid += of_core.valid;
            stats.slowest = stats.slowest.max(of_core.slowest);
        }
        next = round.end;
        stats.memory = stats.memory.max(resident_memory());
        on_progress(&stats);
    }
    Ok(stats)
}

/// The seed of the input that a core checks now, and the start time; `None` if the core has finished.
#[derive(Default)]
struct CurrentInput(Mutex<Option<(u64, Instant)>>);

impl CurrentInput {
    fn set(&self, seed: Option<u64>) {
        *self.0.lock() = seed.map(|seed| (seed, Instant::now()));
    }

    fn get(&self) -> Option<(u64, Instant)> {
        *self.0.lock()
    }
}

/// The seed of an input that exceeds the time limit.
fn hung_seed(current_inputs: &[CurrentInput], now: Instant) -> Option<u64> {
    let mut running = current_inputs.iter().filter_map(CurrentInput::get);
    running.find(|(_, start)| now.saturating_duration_since(*start) > HANG).map(|(seed, _)| seed)
}

/// Watches all cores until they have finished. Rust cannot end a thread from outside, so a hang ends the process.
fn watch_for_hangs(current_inputs: &[CurrentInput]) {
    while current_inputs.iter().any(|current| current.get().is_some()) {
        // A spurious wake-up is harmless.
        thread::park_timeout(Duration::from_millis(20));
        if let Some(seed) = hung_seed(current_inputs, Instant::now()) {
            eprintln!("seed {seed}: it takes more than {HANG:?}");
            std::process::abort();
        }
    }
}

/// The runner of one seed. It generates the same input on every machine.
fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: MAX_SHRINK_STEPS,
        max_shrink_time: u32::try_from(MAX_SHRINK_TIME.as_millis()).unwrap_or(u32::MAX),
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Checks the inputs of one core.
fn run_seeds<S: Strategy>(
    seeds: Range<u64>,
    current: &CurrentInput,
    strategy: &S,
    check: &impl Fn(u64, &S::Value) -> Result<bool, String>,
) -> Result<FuzzStats, FuzzFailure> {
    let mut stats = FuzzStats::default();
    for seed in seeds {
        let start = Instant::now();
        current.set(Some(seed));
        let mut runner = runner(seed);
        let tree = strategy.new_tree(&mut runner).expect("the strategy rejects no value");
        let result = panic::catch_unwind(AssertUnwindSafe(|| check(seed, &tree.current())));
        let took = start.elapsed();
        let result = result.unwrap_or_else(|cause| Err(format!("it panics: {}", panic_message(cause.as_ref()))));
        let result = if took > HANG { Err(format!("it takes {took:?}")) } else { result };
        match result {
            Ok(is_valid) => stats.valid += u64::from(is_valid),
            Err(violation) => {
                let minimal_input = minimal_input(runner, tree, |input| {
                    current.set(Some(seed));
                    check(seed, input)
                });
                return Err(FuzzFailure { seed, violation, minimal_input });
            }
        }
        stats.inputs += 1;
        stats.slowest = stats.slowest.max((took, seed));
    }
    Ok(stats)
}

/// Shrinks a failing input.
fn minimal_input<T: ValueTree>(
    mut runner: TestRunner,
    tree: T,
    check: impl Fn(&T::Value) -> Result<bool, String>,
) -> String {
    let original = format!("{:?}", tree.current());
    let test = |input| check(&input).map(drop).map_err(TestCaseError::fail);
    match runner.run_one(tree, test) {
        Err(TestError::Fail(_, minimal)) => format!("{minimal:?}"),
        Ok(_) | Err(TestError::Abort(_)) => original,
    }
}

fn panic_message(cause: &(dyn std::any::Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// The resident memory of this process in bytes; 0 if the system does not report it.
pub fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::collection::vec;

    use super::*;

    /// The input of a seed.
    fn generate<S: Strategy>(strategy: &S, seed: u64) -> S::Value {
        strategy.new_tree(&mut runner(seed)).expect("a value").current()
    }

    #[test]
    fn every_seed_is_checked_once_and_a_panic_is_reported_with_its_seed() {
        let config = FuzzConfig { inputs: 250_001, seed: 7 };
        let mut rounds = vec![];
        let checked = AtomicU64::new(0);
        let check = |seed: u64, input: &u64| {
            checked.fetch_add(seed, Ordering::Relaxed);
            Ok(*input == generate(&any::<u64>(), seed))
        };
        let stats = run(config, any::<u64>, check, |stats| rounds.push(stats.inputs));
        let stats = stats.expect("no invariant is violated");
        assert_eq!((stats.inputs, stats.valid), (250_001, 250_001));
        assert_eq!(checked.into_inner(), (7..250_008).sum::<u64>());
        assert_eq!(rounds, [100_000, 200_000, 250_001]);
        let failure = run(config, any::<u64>, |seed, _| if seed == 99_999 { panic!("bad") } else { Ok(true) }, |_| ());
        let report = failure.expect_err("an invariant is violated").report("rules");
        assert!(report.starts_with("rules, seed 99999: it panics: bad\nagain: cargo xtask soak fuzz --of rules"));
    }

    #[test]
    fn a_failing_input_is_shrunk_to_a_minimal_one() {
        let config = FuzzConfig { inputs: 1000, seed: 1 };
        let check = |_, numbers: &Vec<u32>| match numbers.iter().find(|number| **number > 500) {
            Some(number) => Err(format!("{number} is greater than 500")),
            None => Ok(true),
        };
        let failure = run(config, || vec(0..10_000_u32, 0..50), check, |_| ()).expect_err("a large number");
        assert_eq!(failure.minimal_input, "[501]");
    }

    #[test]
    fn a_hanging_input_is_detected() {
        let current_inputs = [CurrentInput::default(), CurrentInput::default()];
        current_inputs[1].set(Some(5));
        let hung_after = |time: Duration| hung_seed(&current_inputs, Instant::now() + time);
        assert_eq!((hung_after(Duration::ZERO), hung_after(HANG + HANG)), (None, Some(5)));
        current_inputs[1].set(None);
        assert_eq!(hung_seed(&current_inputs, Instant::now() + HANG + HANG), None);
    }
}
