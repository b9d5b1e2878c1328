//! What the controllers of one process share: the runtime, the executor, and the event broadcaster.

use std::ops::Deref;

use grove_runtime::runtime::{Drain, Runtime};

use crate::{events::Recorder, executor::Executor, load::Load};

/// The runtime of a process together with its one writer. Cheap to clone; all clones share everything.
#[derive(Clone)]
pub struct Controllers {
    runtime: Runtime,
    executor: Executor,
    recorder: Recorder,
    load: Load,
}

impl Controllers {
    /// Starts the event broadcaster, and creates the executor. Needs a tokio runtime.
    pub fn new(runtime: &Runtime) -> Self {
        let load = Load::default();
        let recorder = Recorder::start(runtime.client(), runtime.name(), load.clone());
        let executor = Executor::new(runtime.client(), recorder.clone(), runtime.metrics().clone());
        let executor = executor.gated_by_leadership(runtime.leadership().clone()).with_load(load.clone());
        Self { runtime: runtime.clone(), executor, recorder, load }
    }

    /// The one writer.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The write latency of the API server.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Runs `work` as [`Runtime::run`] does, and drains the events and the writes at the end.
    ///
    /// # Errors
    /// The error of `work`, a lost lease, or a drain that took too long.
    pub async fn run(&self, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        self.runtime.run(work, self).await
    }
}

impl Deref for Controllers {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl Drain for Controllers {
    async fn flush(&self) {
        self.recorder.flush().await;
    }

    async fn wait_idle(&self) {
        self.executor.wait_idle().await;
    }
}
