//! Many inputs, one after the other, each from a seed of its own, so that any of them can be had again.
//!
//! What is tried is a function of bytes: a rule of admission behind a parser, or a route of a server. It says what law an
//! input breaks, if any; a panic breaks one, too.

use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dice::Dice;
use crate::mutation::{mangled, mutated};

/// So much may the memory of a long series grow after its first round: allocators keep what they had once.
const GROWTH: u64 = 16 << 20;
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

/// Whether the environment asks for what has this name: `GROVE_FUZZ_OF` says which one; without it all are meant.
#[expect(clippy::disallowed_methods, reason = "a test has no command line")]
pub fn is_wanted(name: &str) -> bool {
    std::env::var("GROVE_FUZZ_OF").map_or(true, |wanted| wanted == name)
}

/// Hears of the rounds of a long series of `of`: prints how far it has come and what goes on from there.
///
/// # Panics
/// If memory grows.
pub fn telling(of: &str, wish: Wish) -> impl FnMut(&Tally) {
    let (begun, mut first) = (Instant::now(), None);
    move |tally| {
        let Tally { inputs, understood, slowest: (longest, at), memory } = tally;
        let (next, took, megabytes) = (wish.seed + inputs, begun.elapsed().as_secs(), memory >> 20);
        println!(
            "{of}: {inputs} inputs in {took} s, {understood} understood; the slowest took {longest:?} (seed {at}); memory \
             {megabytes} MB; to go on from here: --of {of} --seed {next}"
        );
        let first = *first.get_or_insert(*memory);
        assert!(*memory <= first + GROWTH, "{of}: memory grew from {first} to {memory} bytes");
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
const ROUND: u64 = 100_000;

/// Tries inputs, on all cores. `input` makes that of a seed; `law` gets the seed and the input, and says whether it was
/// understood, or which law it breaks. `told` hears after each round: every seed below the next one has been tried then.
/// An input that is never done with ends the process, with its seed as the last word.
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
    let under_way: Vec<_> = (0..cores).map(|_| UnderWay::default()).collect();
    while next < end {
        let round = next..end.min(next + ROUND);
        let part = (round.end - round.start).div_ceil(cores).max(1);
        let of_core = |core: u64, under_way: &UnderWay| {
            let begin = round.end.min(round.start + core * part);
            let tried = part_of(begin..round.end.min(begin + part), under_way, &input, &law);
            under_way.at(None);
            tried
        };
        for way in &under_way {
            way.at(Some(next));
        }
        let of_core = &of_core;
        let parts: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> =
                (0..).zip(&under_way).map(|(core, way)| scope.spawn(move || of_core(core, way))).collect();
            scope.spawn(|| watched(&under_way));
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

/// What a core is at: its seed, and since when; none when it is done.
#[derive(Default)]
struct UnderWay(Mutex<Option<(u64, Instant)>>);

impl UnderWay {
    fn at(&self, seed: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seed.map(|seed| (seed, Instant::now()));
    }

    fn is(&self) -> Option<(u64, Instant)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The seed of an input that takes so long that it is never done with.
fn overdue(under_way: &[UnderWay], now: Instant) -> Option<u64> {
    let mut late = under_way.iter().filter_map(UnderWay::is);
    late.find(|(_, since)| now.saturating_duration_since(*since) > HANG).map(|(seed, _)| seed)
}

/// Looks after all cores until they are done. A thread cannot be ended from outside, so a hang ends the process.
fn watched(under_way: &[UnderWay]) {
    while under_way.iter().any(|way| way.is().is_some()) {
        // A wake-up too many does no harm.
        thread::park_timeout(Duration::from_millis(20));
        if let Some(seed) = overdue(under_way, Instant::now()) {
            eprintln!("seed {seed}: it takes more than {HANG:?}");
            std::process::abort();
        }
    }
}

/// What one core tries.
fn part_of(
    seeds: Range<u64>,
    under_way: &UnderWay,
    input: &impl Fn(u64) -> Vec<u8>,
    law: &impl Fn(u64, &[u8]) -> Result<bool, String>,
) -> Result<Tally, Broken> {
    let mut tally = Tally::default();
    for seed in seeds {
        let (begun, mut bytes) = (Instant::now(), vec![]);
        under_way.at(Some(seed));
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            bytes = input(seed);
            law(seed, &bytes)
        }));
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
    /// What a failing test says, with what to run to see it again. `of` is what was fuzzed.
    pub fn report(&self, of: &str) -> String {
        let Self { seed, law, input } = self;
        format!("{of}, seed {seed}: {law}\nagain: cargo xtask soak fuzz --of {of} --inputs 1 --seed {seed}\n{input}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, HANG, Instant, UnderWay, Wish, overdue, run};

    #[test]
    fn every_seed_is_tried_once_and_the_one_that_panics_is_told() {
        let wish = Wish { inputs: 250_001, seed: 7 };
        let mut rounds = vec![];
        let seed_of = |seed: u64| seed.to_le_bytes().to_vec();
        let tally = run(wish, seed_of, |seed, bytes| Ok(bytes == seed_of(seed)), |tally| rounds.push(tally.inputs));
        let tally = tally.expect("no law is broken");
        assert_eq!((tally.inputs, tally.understood), (250_001, 250_001));
        assert_eq!(rounds, [100_000, 200_000, 250_001]);
        let broken = run(wish, seed_of, |seed, _| if seed == 99_999 { panic!("bad") } else { Ok(true) }, |_| ());
        let report = broken.expect_err("a law is broken").report("rules");
        assert!(report.starts_with("rules, seed 99999: it panics: bad\nagain: cargo xtask soak fuzz --of rules"));
    }

    #[test]
    fn an_input_that_is_never_done_with_is_noticed() {
        let ways = [UnderWay::default(), UnderWay::default()];
        ways[1].at(Some(5));
        let later = |time: Duration| overdue(&ways, Instant::now() + time);
        assert_eq!((later(Duration::ZERO), later(HANG + HANG)), (None, Some(5)));
        ways[1].at(None);
        assert_eq!(overdue(&ways, Instant::now() + HANG + HANG), None);
    }
}
