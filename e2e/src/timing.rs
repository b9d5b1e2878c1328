//! The duration of each test, how much of it was the wait for a control plane and its start, and the message of a failure.
//!
//! libtest runs each test on a thread of its own, with the name of the test as its name. So a thread-local value lives as long as the
//! test, and its destructor records the duration.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::test_cluster::optional_env;

/// The longest message, in characters. It may begin with all objects of a namespace, and ends with what was awaited.
const MAX_MESSAGE: usize = 2500;

/// What a test waits for before its own work.
#[derive(Clone, Copy)]
pub(crate) enum Phase {
    /// Other tests use the control planes.
    Queue,
    /// The start of a control plane and of the services, and their end.
    Clusters,
}

/// The times of the test of this thread.
struct Timer {
    started: Instant,
    queue: Cell<Duration>,
    clusters: Cell<Duration>,
    /// The message of the first panic.
    failure: RefCell<Option<String>>,
}

thread_local! {
    static TIMER: Timer = Timer::new();
}

impl Timer {
    fn new() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let default = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                record_failure(info);
                default(info);
            }));
        });
        let started = Instant::now();
        Self { started, queue: Cell::default(), clusters: Cell::default(), failure: RefCell::default() }
    }
}

/// A panic on another thread than that of a test has its own timer, which records nothing.
fn record_failure(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("a panic without a message");
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let surplus = message.chars().count().saturating_sub(MAX_MESSAGE);
    let message: String = message.chars().skip(surplus).collect();
    // After the end of a test there is no timer.
    let _ = TIMER.try_with(|timer| _ = timer.failure.borrow_mut().get_or_insert(format!("{at}: {message}")));
}

/// Starts the timer of the test that runs on this thread, unless it runs already.
pub(crate) fn start() {
    TIMER.with(|_| ());
}

/// Runs a part of the test, and counts its duration for the phase.
pub(crate) async fn count<T>(phase: Phase, part: impl Future<Output = T>) -> T {
    start();
    let began = Instant::now();
    let result = part.await;
    TIMER.with(|timer| {
        let total = match phase {
            Phase::Queue => &timer.queue,
            Phase::Clusters => &timer.clusters,
        };
        total.set(total.get() + began.elapsed());
    });
    result
}

impl Drop for Timer {
    fn drop(&mut self) {
        let current = std::thread::current();
        // Threads of the runtime have no name with a path.
        let Some(test) = current.name().filter(|name| name.contains("::")) else { return };
        let [total, queue, clusters] =
            [self.started.elapsed(), self.queue.get(), self.clusters.get()].map(|time| time.as_secs_f64());
        // libtest does not capture the output of this handle.
        let _ = writeln!(
            std::io::stderr(),
            "{total:.1} s, of which {clusters:.1} s for clusters and {queue:.1} s in the queue: {test}"
        );
        if let Some(file) = optional_env("GROVE_TEST_TIMES") {
            let failure = self.failure.take();
            let times =
                json!({ "test": test, "seconds": total, "clusters": clusters, "queue": queue, "failure": failure });
            // One write, because tests that end at the same time append to the same file.
            let line = format!("{times}\n");
            let file = File::options().append(true).create(true).open(file);
            let recorded = file.and_then(|mut file| file.write_all(line.as_bytes()));
            recorded.expect("the duration is recorded");
        }
    }
}
