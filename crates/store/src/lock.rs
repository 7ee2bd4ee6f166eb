//! Lock on a recording that names its owner: only one writer at a time.
//!
//! The lock is `flock(2)` on the file `lock` in the recording's directory, so the death of its owner always releases
//! it. The file names the owner. The owner removes it on release; a file left by a crash is taken over.

use crate::StoreError;
use crate::owner::Owner;
use crate::system;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";

/// Permission to write to a recording, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    /// Lock file, kept open because closing it releases the lock. `None` if the file system has no locks.
    file: Option<File>,
    path: PathBuf,
}

impl Lock {
    /// Returns the process that has the lock of the recording in that directory, without taking it.
    pub fn held_by(recording: &Path) -> Option<Owner> {
        let mut file = File::open(recording.join(LOCK)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(owner(&mut file)),
            // Free, or on a file system without locks.
            _ => None,
        }
    }

    /// Takes the lock of the recording in that directory.
    ///
    /// # Errors
    /// `InUse` if another process has it; `Io` or `DiskFull` if its file cannot be written.
    pub fn take(recording: &Path) -> Result<Lock, StoreError> {
        let path = recording.join(LOCK);
        let failed = |e| StoreError::io("lock", &path, 0, e);
        loop {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            let mut file = options.open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::InUse {
                        path: recording.to_owned(),
                        owner: owner(&mut file),
                    });
                }
                Err(TryLockError::Error(e)) if knows_no_locks(&e) => {
                    return Ok(Lock { file: None, path });
                }
                Err(TryLockError::Error(e)) => return Err(failed(e)),
            }
            // The previous owner may have removed the file between opening and locking.
            if !system::is_still(&file, &path) {
                continue;
            }
            sign(&mut file).map_err(failed)?;
            let file = Some(file);
            return Ok(Lock { file, path });
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Removed while the lock is held. A file that remains is taken over by the next owner.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// True if the file system refuses every lock, as some network file systems do.
fn knows_no_locks(e: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    e.kind() == io::ErrorKind::Unsupported || e.raw_os_error() == Some(ENOLCK)
}

fn owner(file: &mut File) -> Owner {
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    // A missing or unreadable entry belongs to another process.
    let owner = read.ok().and_then(|_| serde_json::from_str(&text).ok());
    owner.unwrap_or_default()
}

fn sign(file: &mut File) -> io::Result<()> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let owner = Owner {
        pid: std::process::id(),
        host: host.trim().to_owned(),
        since: since(file)?,
    };
    let text = serde_json::to_string(&owner).map_err(io::Error::other)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

/// Returns the current time from the file system's clock, because this crate reads no clock.
fn since(file: &mut File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(b" ")?;
    let modified = file.metadata()?.modified()?;
    let at = jiff::Timestamp::try_from(modified).map_err(io::Error::other)?;
    let seconds = jiff::Timestamp::from_second(at.as_second()).map_err(io::Error::other)?;
    Ok(seconds.to_string())
}
