//! Users of the key file, which is read again when it changes, and the answers to wrong keys.

use super::Shared;
use super::journal::{Entry, Happened};
use crate::clock::{Clock, mono_ns};
use crate::load::kernel::random_bytes;
use base::Time;
use measure::bucket::ByNetwork;
use measure::keys::{GRACE, Identity, KeyFile, KeyFileError, News, Reload, Users};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Interval of the checks of the file; sessions whose key is gone end within this time.
const LOOK: std::time::Duration = std::time::Duration::from_millis(500);
/// Shortest time until a wrong key is answered.
pub const WRONG_AFTER_NS: i64 = 1_000_000_000;
/// Wrong keys that are answered: of one network, a second and in a burst; then of all.
const OF_NETWORK: (f64, f64) = (1.0, 5.0);
const OF_ALL: (f64, f64) = (50.0, 50.0);
/// Size above which a key file is a mistake.
const LARGEST_FILE: u64 = 4 << 20;

/// Source of the keys.
#[derive(Clone, Debug)]
pub enum Keys {
    /// File that is read again when it changes.
    File(PathBuf),
    /// Fixed keys, for the server's whole run.
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
/// The file cannot be read, other users can read it, or a line is wrong.
pub fn read(path: &Path) -> Result<KeyFile, KeysError> {
    let (file, fault) = read_lines(path)?;
    fault.map_or(Ok(file), Err)
}

/// Reads the lines of a key file that have no fault, and the first fault of a line.
fn read_lines(path: &Path) -> Result<(KeyFile, Option<KeysError>), KeysError> {
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
    let (file, fault) = KeyFile::parse_what_can_be_read(&text);
    let fault = fault.map(|error| KeysError::Line {
        path: path.into(),
        error,
    });
    Ok((file, fault))
}

/// Facts that show that a file has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u64, u64, (i64, i64), (i64, i64));

fn mark(path: &Path) -> Option<Mark> {
    let about = std::fs::metadata(path).ok()?;
    Some(Mark(
        about.ino(),
        about.len(),
        (about.mtime(), about.mtime_nsec()),
        // Changes with the rights as well.
        (about.ctime(), about.ctime_nsec()),
    ))
}

/// Keys of a running server.
pub struct Ring {
    path: Option<PathBuf>,
    users: Mutex<Option<Arc<Users>>>,
    /// State of the file; null if the keys come from no file.
    reload: Mutex<Option<Reload>>,
    /// True to have the file read even if it has not changed.
    asked: AtomicBool,
    faulty: AtomicBool,
    /// Number that grows whenever the users change.
    generation: AtomicU64,
    wrong: Mutex<ByNetwork>,
    served: Mutex<BTreeMap<u64, (Identity, Arc<TcpStream>)>>,
    next: AtomicU64,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connection of a user, which is closed when the user's key is gone.
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
        let reload = path.as_ref().and(file.clone()).map(Reload::new);
        let users = file.map(|file| Arc::new(Users::new(&file, random_bytes(), None)));
        Ok(Ring {
            path,
            users: Mutex::new(users),
            reload: Mutex::new(reload),
            asked: AtomicBool::new(false),
            faulty: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            wrong: Mutex::new(ByNetwork::new(OF_NETWORK, OF_ALL)),
            served: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Users that are served; none if everybody is.
    pub fn users(&self) -> Option<Arc<Users>> {
        lock(&self.users).clone()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Has the key file read soon, even if it has not changed.
    pub fn read_again(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// True while the key file has a fault or cannot be read.
    pub fn is_faulty(&self) -> bool {
        self.faulty.load(Ordering::Relaxed)
    }

    /// Reads the key file. Returns the news for the operator.
    fn reload(&self, path: &Path) -> Option<News> {
        let mut guard = lock(&self.reload);
        let reload = guard.as_mut()?;
        let (shown, fault) = match read_lines(path) {
            Ok((shown, fault)) => (shown, fault.map(|e| e.to_string())),
            Err(e) => (KeyFile::default(), Some(e.to_string())),
        };
        let before = reload.valid().clone();
        let news = reload.take(mono(), shown, fault);
        self.faulty.store(reload.is_faulty(), Ordering::Relaxed);
        if *reload.valid() != before {
            let old = self.users();
            let users = Users::new(reload.valid(), random_bytes(), old.as_deref());
            *lock(&self.users) = Some(Arc::new(users));
            self.generation.fetch_add(1, Ordering::Release);
        }
        news
    }

    /// True if a wrong key of this address is answered; otherwise the connection ends without a word.
    pub fn answers_wrong_key(&self, ip: IpAddr) -> bool {
        lock(&self.wrong).take(mono(), ip)
    }

    /// True if this address's network has tried so many wrong keys that its keys are checked late.
    pub fn is_suspect(&self, ip: IpAddr) -> bool {
        !lock(&self.wrong).has(mono(), ip)
    }

    /// Registers a connection that is to end with its user's key.
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

/// Maintains the keys until the server stops: reads the file again when it changes, on request and while it has a
/// fault, and ends the sessions of keys that are gone or have expired.
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
            let asked = ring.asked.swap(false, Ordering::Relaxed);
            let mut news = None;
            if now != known || asked || ring.is_faulty() {
                // Who asked gets an answer, even if nothing is new.
                let same = (asked && !ring.is_faulty()).then_some(News::Read);
                news = ring.reload(path).or(same);
            }
            if let Some(news) = news {
                let users = ring.users().map_or(0, |u| u.names().len());
                let (why, text) = told(&news, users, path);
                shared.journal.write(Entry {
                    what: "key_file",
                    why,
                    text: text.clone(),
                    ..Entry::of(Happened::Keys)
                });
                say(text);
            }
            known = now;
        }
        ring.end_invalid(unix_s(shared.clock));
    }
}

/// News of the key file for the log, and in words.
fn told(news: &News, users: usize, path: &Path) -> (&'static str, String) {
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (why, text) = match news {
        News::Read => {
            let users = many(users, "user");
            (
                "read",
                format!("keys of {users} read from {}", path.display()),
            )
        }
        News::Fault { text, kept: 0 } => {
            let text = format!("WARNING: {text}. No valid key is affected");
            ("fault", text)
        }
        News::Fault { text, kept } => {
            let text = format!(
                "WARNING: {text}. {} that the file no longer shows stay valid for {GRACE:.0} from the first fault on, and end then",
                many(*kept, "key")
            );
            ("fault", text)
        }
        News::Ended { text, keys } => {
            let text = format!(
                "WARNING: {text}. {} that the file no longer shows have ended",
                many(*keys, "key")
            );
            ("ended", text)
        }
    };
    (why, base::text::clean(&text).into_owned())
}
