//! Who may come in: the users of the file of keys, which is read again when it changes, and how wrong keys are answered.

use super::Shared;
use crate::clock::{Clock, mono_ns};
use crate::load::kernel::random_bytes;
use base::Time;
use measure::bucket::ByNetwork;
use measure::keys::{Identity, KeyFile, KeyFileError, Users};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file is looked at this often, and sessions whose key is gone end within as much.
const LOOK: std::time::Duration = std::time::Duration::from_millis(500);
/// A wrong key is answered no sooner.
pub const WRONG_AFTER_NS: i64 = 1_000_000_000;
/// Wrong keys that are answered: of one network a second, and at once; of all.
const OF_NETWORK: (f64, f64) = (1.0, 5.0);
const OF_ALL: (f64, f64) = (50.0, 50.0);
/// A larger file of keys is a mistake.
const LARGEST_FILE: u64 = 4 << 20;

/// Where the keys come from.
#[derive(Clone, Debug)]
pub enum Keys {
    /// A file, which is read again when it changes.
    File(PathBuf),
    /// These, for as long as the server runs.
    Fixed(KeyFile),
}

#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("cannot read the keys in {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "others may read or change {}: it holds secrets. `chmod 600 {}` keeps them", .path.display(), .path.display()
    )]
    Open { path: PathBuf },
    #[error("{} is larger than {LARGEST_FILE} bytes: is it a file of keys?", .path.display())]
    Large { path: PathBuf },
    #[error("{}, {error}", .path.display())]
    Line { path: PathBuf, error: KeyFileError },
}

/// Reads a file of keys.
///
/// # Errors
/// It cannot be read, others can read it as well, or a line is wrong.
pub fn read(path: &Path) -> Result<KeyFile, KeysError> {
    let failed = |source| KeysError::Read {
        path: path.into(),
        source,
    };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    // A group may read it, as systemd hands out credentials. Pipes and devices keep no secrets.
    if about.is_file() && about.mode() & 0o037 != 0 {
        return Err(KeysError::Open { path: path.into() });
    }
    if about.len() > LARGEST_FILE {
        return Err(KeysError::Large { path: path.into() });
    }
    let mut text = String::new();
    io::Read::read_to_string(&mut file, &mut text).map_err(failed)?;
    KeyFile::parse(&text).map_err(|error| KeysError::Line {
        path: path.into(),
        error,
    })
}

/// What tells that a file has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u64, u64, i64, i64);

fn mark(path: &Path) -> Option<Mark> {
    let about = std::fs::metadata(path).ok()?;
    Some(Mark(
        about.ino(),
        about.len(),
        about.mtime(),
        about.mtime_nsec(),
    ))
}

/// The keys of a running server.
pub struct Ring {
    path: Option<PathBuf>,
    users: Mutex<Option<Arc<Users>>>,
    /// Grows whenever the users change.
    generation: AtomicU64,
    wrong: Mutex<ByNetwork>,
    served: Mutex<BTreeMap<u64, (Identity, Arc<TcpStream>)>>,
    next: AtomicU64,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection of a user, which is closed when the user's key is gone.
pub struct Served<'a> {
    ring: &'a Ring,
    id: u64,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        lock(&self.ring.served).remove(&self.id);
    }
}

impl Ring {
    /// # Errors
    /// The file cannot be read, or a line of it is wrong.
    pub fn new(keys: Option<&Keys>) -> Result<Ring, KeysError> {
        let (path, file) = match keys {
            None => (None, None),
            Some(Keys::Fixed(file)) => (None, Some(file.clone())),
            Some(Keys::File(path)) => (Some(path.clone()), Some(read(path)?)),
        };
        let users = file.map(|file| Arc::new(Users::new(&file, random_bytes(), None)));
        Ok(Ring {
            path,
            users: Mutex::new(users),
            generation: AtomicU64::new(0),
            wrong: Mutex::new(ByNetwork::new(OF_NETWORK, OF_ALL)),
            served: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Who is served; none where everybody is.
    pub fn users(&self) -> Option<Arc<Users>> {
        lock(&self.users).clone()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// True if a wrong key of this address is answered; otherwise the connection ends without a word.
    pub fn answers_wrong_key(&self, ip: IpAddr) -> bool {
        lock(&self.wrong).take(mono(), ip)
    }

    /// True if this address's network has tried so many wrong keys that its keys are checked late.
    pub fn is_suspect(&self, ip: IpAddr) -> bool {
        !lock(&self.wrong).has(mono(), ip)
    }

    /// Notes a connection that is to end with its user's key.
    pub fn serve(&self, identity: &Identity, stream: &Arc<TcpStream>) -> Served<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.served).insert(id, (identity.clone(), stream.clone()));
        Served { ring: self, id }
    }

    fn end_invalid(&self, now_s: i64) {
        let Some(users) = self.users() else {
            return;
        };
        for (identity, stream) in lock(&self.served).values() {
            if !users.has(identity, now_s) {
                // Its thread wakes up and ends.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

fn mono() -> Time {
    Time::from_nanos(mono_ns().max(0).unsigned_abs())
}

pub fn unix_s(clock: Clock) -> i64 {
    clock.unix_ns() / 1_000_000_000
}

/// Looks after the keys until the server stops: reads the file again when it changes, and ends the sessions of keys
/// that are gone or have expired. A file that cannot be read leaves the keys as they are.
pub(super) fn watch(shared: &Shared, mut say: impl FnMut(String)) {
    let ring = &shared.ring;
    let mut known = ring.path.as_deref().and_then(mark);
    let mut looked = std::time::Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(50));
        if looked.elapsed() < LOOK {
            continue;
        }
        looked = std::time::Instant::now();
        if let Some(path) = &ring.path {
            let now = mark(path);
            if now != known {
                known = now;
                match read(path) {
                    Ok(file) => {
                        let before = ring.users();
                        let users = Users::new(&file, random_bytes(), before.as_deref());
                        let count = users.names().len();
                        *lock(&ring.users) = Some(Arc::new(users));
                        ring.generation.fetch_add(1, Ordering::Release);
                        let s = if count == 1 { "" } else { "s" };
                        say(format!(
                            "keys of {count} user{s} read from {}",
                            path.display()
                        ));
                    }
                    Err(e) => say(format!("{e}. The keys stay as they were")),
                }
            }
        }
        ring.end_invalid(unix_s(shared.clock));
    }
}
