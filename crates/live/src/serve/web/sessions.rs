//! Sessions of pages: a channel of probes and the uploads beside it, which the channel tells the page of.

use crate::serve::sync::lock;
use measure::control::SessionId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Greatest number of sessions at once, and of uploads in one.
const SESSIONS: usize = 256;
const FLOWS: usize = 64;
/// Number of times that the end of an upload is told: a datagram may be lost.
const TOLD: u32 = 20;

/// Upload of a session.
pub(super) struct Upload {
    pub flow: u32,
    pub bytes: AtomicU64,
    pub ended: AtomicBool,
    /// True once the page wants no more of it.
    pub stopped: AtomicBool,
}

/// Upload that ends when this is dropped.
pub(super) struct Running(pub Arc<Upload>);

impl Running {
    /// Upload that no page is told of.
    pub(super) fn alone(flow: u32) -> Running {
        Running(Upload::new(flow))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

impl Upload {
    fn new(flow: u32) -> Arc<Upload> {
        Arc::new(Upload {
            flow,
            bytes: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        })
    }
}

type Uploads = Vec<(Arc<Upload>, u32)>;

/// Sessions whose channels are open.
#[derive(Default)]
pub(super) struct Sessions(Mutex<BTreeMap<SessionId, Uploads>>);

/// Open session, until this is dropped.
pub(super) struct Session<'a> {
    all: &'a Sessions,
    id: SessionId,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.id);
    }
}

impl Sessions {
    /// Opens a session; none if there are too many, or one of this number.
    pub(super) fn open(&self, id: SessionId) -> Option<Session<'_>> {
        let mut all = lock(&self.0);
        if all.len() >= SESSIONS || all.contains_key(&id) {
            return None;
        }
        all.insert(id, Vec::new());
        Some(Session { all: self, id })
    }

    /// True if the channel of a session is open.
    pub(super) fn has(&self, id: SessionId) -> bool {
        lock(&self.0).contains_key(&id)
    }

    /// Begins an upload; none without a session, and if it has too many.
    pub(super) fn upload(&self, id: SessionId, flow: u32) -> Option<Running> {
        let mut all = lock(&self.0);
        let uploads = all.get_mut(&id).filter(|u| u.len() < FLOWS)?;
        let upload = Upload::new(flow);
        uploads.push((upload.clone(), 0));
        Some(Running(upload))
    }
}

impl Sessions {
    /// Ends an upload at its page's wish. What waits in the browser's sockets would otherwise arrive first.
    pub(super) fn stop(&self, id: SessionId, flow: u32) {
        let all = lock(&self.0);
        for (upload, _) in all.get(&id).into_iter().flatten() {
            if upload.flow == flow {
                upload.stopped.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Session<'_> {
    /// Uploads to tell of now.
    pub(super) fn uploads(&self) -> Vec<Arc<Upload>> {
        let mut all = lock(&self.all.0);
        let Some(uploads) = all.get_mut(&self.id) else {
            return Vec::new();
        };
        for (upload, told) in uploads.iter_mut() {
            *told += u32::from(upload.ended.load(Ordering::Relaxed));
        }
        uploads.retain(|(_, told)| *told <= TOLD);
        uploads.iter().map(|(u, _)| u.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_needs_an_open_session_and_its_end_is_told_until_it_must_have_come() {
        let sessions = Sessions::default();
        let id = SessionId([7; 16]);
        assert!(sessions.upload(id, 1).is_none());
        let session = sessions.open(id).expect("the first");
        assert!(sessions.open(id).is_none(), "two channels of one session");
        let running = sessions.upload(id, 1).expect("it is open");
        running.0.bytes.store(1000, Ordering::Relaxed);
        sessions.stop(id, 2);
        assert!(!running.0.stopped.load(Ordering::Relaxed), "another flow");
        sessions.stop(id, 1);
        assert!(running.0.stopped.load(Ordering::Relaxed));
        assert_eq!(session.uploads().len(), 1);
        drop(running);
        let told = (0..2 * TOLD).filter(|_| {
            let uploads = session.uploads();
            uploads.iter().all(|u| u.ended.load(Ordering::Relaxed)) && !uploads.is_empty()
        });
        assert_eq!(told.count(), TOLD as usize);
        let held: Vec<_> = (0..FLOWS as u32 + 9)
            .filter_map(|n| sessions.upload(id, n))
            .collect();
        assert_eq!(held.len(), FLOWS);
        drop(session);
        assert!(!sessions.has(id) && sessions.open(id).is_some());
        let many: Vec<_> = (0..=255u8)
            .filter_map(|n| sessions.open(SessionId([n; 16])))
            .collect();
        assert_eq!(many.len(), SESSIONS, "one had been closed");
        assert!(
            sessions
                .open(SessionId([1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6]))
                .is_none()
        );
    }
}
