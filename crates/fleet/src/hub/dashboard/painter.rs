//! Thread of low priority that draws pages, until it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which it looks for work, and if it is time to stop.
const ROUND: Duration = Duration::from_millis(500);

pub struct Painter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Painter {
    /// Draws in rounds: `paint` does what there is to do.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(name: &str, mut paint: impl FnMut() + Send + 'static) -> std::io::Result<Painter> {
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || {
            live::host::be_nice();
            while !stopped.load(Ordering::Acquire) {
                paint();
                std::thread::park_timeout(ROUND);
            }
        })?;
        Ok(Painter {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Painter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
