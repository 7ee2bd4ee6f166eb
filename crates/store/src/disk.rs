//! File-system operations that a recording needs, behind a trait so that tests can make any of them fail. All paths are
//! complete. All writes go to a given offset, so that an incomplete write can be repeated.

use crate::system;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

pub trait Disk: Send + Sync {
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
    /// Creates a directory; fails if it exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory; fails if it is not empty.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a file for writing and empties it.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>>;
    /// Opens an existing file for further writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Output>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes created, renamed and removed entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

pub trait Output: Send {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes contents and length durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// File system of the operating system.
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        system::create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(create_new(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let file = system::no_link(OpenOptions::new().write(true)).open(path)?;
        Ok(Box::new(file))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        system::sync_dir(path)
    }
}

impl Output for File {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        system::write_all_at(self, bytes, offset)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Creates a file and opens it for writing. An existing file of that name is replaced. A symbolic link is removed,
/// never followed, so that a stranger's directory cannot redirect the write. Owner and group can read the file.
///
/// # Errors
/// The errors of the operating system.
pub fn create_new(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    exclusive().open(path)
}

/// Options that open only a newly created file (`O_EXCL`, which follows no link).
fn exclusive() -> OpenOptions {
    let mut options = OpenOptions::new();
    system::no_link(options.write(true).create_new(true));
    options
}

/// Creates a file with an unpredictable name in the directory of `beside`; returns the file and its name.
///
/// # Errors
/// The errors of the operating system.
pub fn create_temporary(beside: &Path, ending: &str) -> io::Result<(File, PathBuf)> {
    const TRIES: u32 = 16;
    let mut tries = 0;
    loop {
        tries += 1;
        let random = RandomState::new().hash_one(tries);
        let path = parent(beside).join(format!(".tailback-{random:016x}{ending}"));
        match exclusive().open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
            Err(e) => return Err(e),
        }
    }
}

/// Writes `bytes` to `path`, completely or not at all, through a temporary file beside it. If `path` is a symbolic
/// link, the link is replaced, not its target.
///
/// # Errors
/// The errors of the operating system; the temporary file is removed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (mut file, part) = create_temporary(path, ".tmp")?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Opens a file of a recording for reading. Links, devices and pipes in a recording are refused: reading them leads
/// elsewhere or never ends.
///
/// # Errors
/// The errors of the operating system, or an error if it is no regular file.
pub fn open_read(path: &Path) -> io::Result<File> {
    let file = system::open_plain(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

/// Reads a file of a recording, at most `most` bytes long.
///
/// # Errors
/// The same as [`open_read`], or an error if the file is longer.
pub fn read_whole(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_read(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

/// True if an error means that no space is left, rather than a fault.
pub fn is_full(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Writes `bytes` to `path` so that a reader finds the old or the new contents, never a mixture, even after a power
/// failure.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = part_of(path);
    let mut out = disk.create(&part)?;
    out.write_at(bytes, 0)?;
    out.sync()?;
    disk.rename(&part, path)?;
    disk.sync_dir(parent(path))
}

/// Returns the directory that holds the entry of `path`.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if p != Path::new("") => p,
        _ => Path::new("."),
    }
}

/// Returns the name of an incomplete file; readers skip it.
pub(crate) fn part_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}
