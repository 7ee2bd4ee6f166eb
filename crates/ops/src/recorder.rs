//! Recorder: the one receiver of rows. Each row goes to disk and into the recording in memory that the live view and
//! the stop rule read.

use base::record::{Recording, Row};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use store::{StoreError, Writer};

pub type Shared = Arc<Mutex<Recording>>;

pub struct Recorder {
    pub rows: Sender<Row>,
    pub shared: Shared,
    failed: Arc<Mutex<Option<String>>>,
    thread: JoinHandle<(Writer, Result<(), StoreError>)>,
}

impl Recorder {
    pub fn start(writer: Writer, recording: Recording, clock: live::clock::Clock) -> Recorder {
        let (rows, inbox) = channel();
        let shared = Arc::new(Mutex::new(recording));
        let failed = Arc::new(Mutex::new(None));
        let thread = std::thread::spawn({
            let (shared, failed) = (shared.clone(), failed.clone());
            move || record(inbox, writer, &shared, &failed, clock)
        });
        Recorder {
            rows,
            shared,
            failed,
            thread,
        }
    }

    /// Reason why rows no longer reach the disk, if that is so.
    pub fn failure(&self) -> Arc<Mutex<Option<String>>> {
        self.failed.clone()
    }

    /// Waits for the last row; all other senders must be gone. Returns the rows in memory, the writer to be closed, and
    /// the result of writing.
    pub fn finish(self) -> (Recording, Writer, Result<(), StoreError>) {
        drop(self.rows);
        let (writer, written) = self.thread.join().expect("the recorder does not panic");
        let recording = std::mem::take(&mut *self.shared.lock().expect("no holder panicked"));
        (recording, writer, written)
    }
}

fn record(
    inbox: Receiver<Row>,
    mut writer: Writer,
    shared: &Shared,
    failed: &Mutex<Option<String>>,
    clock: live::clock::Clock,
) -> (Writer, Result<(), StoreError>) {
    let mut broken = None;
    loop {
        let row = match inbox.recv_timeout(Duration::from_millis(200)) {
            Ok(row) => Some(row),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if broken.is_none() {
            let result = row
                .clone()
                .map_or(Ok(()), |r| writer.write(r))
                .and_then(|()| writer.tick(clock.unix_ns()));
            if let Err(e) = result {
                // Memory still holds everything: the run is told to end, and its figures are shown.
                *failed.lock().expect("no holder panicked") = Some(e.to_string());
                broken = Some(e);
            }
        }
        if let Some(row) = row {
            shared.lock().expect("no holder panicked").push(row);
        }
    }
    (writer, broken.map_or(Ok(()), Err))
}
