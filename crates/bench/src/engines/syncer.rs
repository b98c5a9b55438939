//! A thread that makes a peer durable in a rhythm, for peers that have no such mode of their own.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{BenchError, Result};

/// A running thread; [`Syncer::stop`] ends it.
pub(super) struct Syncer {
    stop: Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Syncer {
    /// Calls `sync` every `interval` until it is stopped or `sync` fails.
    ///
    /// # Errors
    /// What the system answers when there can be no thread.
    pub(super) fn start(
        interval: Duration,
        sync: impl Fn() -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::Builder::new()
            .name("log-sync".into())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    sync()?;
                }
                Ok(())
            })
            .map_err(BenchError::io("start the thread that syncs"))?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// The failure of a sync.
    pub(super) fn stop(self) -> Result<()> {
        drop(self.stop);
        self.thread
            .join()
            .map_err(|_| BenchError::Engine("the thread that syncs panicked".into()))?
    }
}
