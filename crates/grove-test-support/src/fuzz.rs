//! Many inputs, one after the other, each from a seed of its own, so that any of them can be had again.
//!
//! What is tried is a function of bytes: a rule of admission behind a parser, or a route of a server. It says what law an
//! input breaks, if any; a panic breaks one, too.

use std::fmt::Write;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dice::Dice;
use crate::mutation::{mangled, mutated};

/// No input may take longer, on a machine that is held up for minutes, too: typical ones take a millisecond.
const HANG: Duration = Duration::from_mins(10);

/// How many inputs, and from which seed on.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// How many.
    pub inputs: u64,
    /// The seed of the first; each further one has the next.
    pub seed: u64,
}

impl Wish {
    /// What the environment asks for: `GROVE_FUZZ_INPUTS` and `GROVE_FUZZ_SEED`, else so many from seed 1.
    #[expect(clippy::disallowed_methods, reason = "a test has no command line")]
    pub fn of_environment(inputs: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Self { inputs: number("GROVE_FUZZ_INPUTS").unwrap_or(inputs), seed: number("GROVE_FUZZ_SEED").unwrap_or(1) }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs tried.
    pub inputs: u64,
    /// Those of them that could be understood, by what was said of them.
    pub understood: u64,
    /// The longest that one took, and its seed.
    pub slowest: (Duration, u64),
    /// The most resident memory that was seen, in bytes; 0 where the system does not tell.
    pub memory: u64,
}

/// An input that breaks a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The seed that makes it again.
    pub seed: u64,
    /// The law.
    pub law: String,
    /// The input, as text.
    pub input: String,
}

/// The input of a seed: nine of ten are JSON, the others bytes.
pub fn input(objects: &[Value], seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let object = dice.one_of(objects).cloned().unwrap_or_default();
    if dice.once_in(10) {
        return mangled(object.to_string().as_bytes(), &mut dice);
    }
    mutated(&object, &mut dice).to_string().into_bytes()
}

/// Inputs after which it is told how far it has come.
const ROUND: u64 = 1_000_000;

/// Tries inputs, on all cores. `input` makes that of a seed; `law` gets the seed and the input, and says whether it was
/// understood, or which law it breaks. `told` hears after each million: every seed below the next one has been tried then.
///
/// # Errors
/// An input that breaks a law, the first of its core.
pub fn run(
    wish: Wish,
    input: impl Fn(u64) -> Vec<u8> + Sync,
    law: impl Fn(u64, &[u8]) -> Result<bool, String> + Sync,
    mut told: impl FnMut(&Tally),
) -> Result<Tally, Broken> {
    let mut tally = Tally::default();
    let cores = thread::available_parallelism().map_or(1, |cores| u64::try_from(cores.get()).unwrap_or(1));
    let (mut next, end) = (wish.seed, wish.seed.saturating_add(wish.inputs));
    while next < end {
        let round = next..end.min(next + ROUND);
        let part = (round.end - round.start).div_ceil(cores).max(1);
        let of_core = |core: u64| {
            let begin = round.end.min(round.start + core * part);
            part_of(begin..round.end.min(begin + part), &input, &law)
        };
        let parts: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = (0..cores).map(|core| scope.spawn(move || of_core(core))).collect();
            running.into_iter().filter_map(|running| running.join().ok()).collect()
        });
        for part in parts {
            let part = part?;
            tally.inputs += part.inputs;
            tally.understood += part.understood;
            tally.slowest = tally.slowest.max(part.slowest);
        }
        next = round.end;
        tally.memory = tally.memory.max(resident());
        told(&tally);
    }
    Ok(tally)
}

/// What one core tries.
fn part_of(
    seeds: Range<u64>,
    input: &impl Fn(u64) -> Vec<u8>,
    law: &impl Fn(u64, &[u8]) -> Result<bool, String>,
) -> Result<Tally, Broken> {
    let mut tally = Tally::default();
    for seed in seeds {
        let bytes = input(seed);
        let begun = Instant::now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| law(seed, &bytes)));
        let took = begun.elapsed();
        let outcome = outcome.unwrap_or_else(|cause| Err(format!("it panics: {}", words(cause.as_ref()))));
        let outcome = if took > HANG { Err(format!("it takes {took:?}")) } else { outcome };
        match outcome {
            Ok(understood) => tally.understood += u64::from(understood),
            Err(law) => return Err(Broken { seed, law, input: String::from_utf8_lossy(&bytes).into_owned() }),
        }
        tally.inputs += 1;
        tally.slowest = tally.slowest.max((took, seed));
    }
    Ok(tally)
}

fn words(cause: &(dyn std::any::Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// The resident memory of this process, in bytes; 0 where the system does not tell.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

impl Broken {
    /// What a failing test says, with what to run to see it again.
    pub fn report(&self) -> String {
        let Self { seed, law, input } = self;
        let mut text = format!("seed {seed}: {law}\n");
        text += "again: cargo xtask soak fuzz --inputs 1 --seed ";
        write!(text, "{seed}\n{input}\n").unwrap_or_default();
        text
    }
}
