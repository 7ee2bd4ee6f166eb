//! A directory that goes away, and the least that a recording must say of itself.

use base::record::Meta;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// 2026-11-21T12:00:00Z.
pub const NOON: i64 = 1_795_262_400_000_000_000;

/// A directory of its own for one test, removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!(
            "tailback-store-{name}-{}-{number}",
            std::process::id()
        ));
        std::fs::create_dir(&path).unwrap();
        Scratch(path)
    }
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn meta() -> Meta {
    Meta {
        writer: "test".into(),
        verb: "test".into(),
        started_ns: NOON,
        ..Meta::default()
    }
}
