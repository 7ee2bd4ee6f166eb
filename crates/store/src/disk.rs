//! The few operations a recording needs of a file system, behind a trait so that tests can make any one of them
//! fail. All paths are whole; all writes go to a stated offset, so that a write that was cut short can be repeated.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub trait Disk: Send + Sync {
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
    /// Fails where the directory exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Fails where the directory is not empty.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens for writing, empty: what stood there is gone.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>>;
    /// Opens an existing file for writing further.
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

/// The operating system's file system.
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o750).create(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(create_new(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_NOFOLLOW);
        Ok(Box::new(options.open(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl Output for File {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Makes a file and opens it for writing. What had its name is gone; a link is removed, never followed, so that a
/// directory made by a stranger cannot lead the write elsewhere. Its owner and group can read it.
///
/// # Errors
/// The operating system's.
pub fn create_new(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    exclusive().open(path)
}

/// Opens only what it makes itself (`O_EXCL`, which follows no link).
fn exclusive() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o640)
        .custom_flags(libc::O_NOFOLLOW);
    options
}

/// A file in the directory of `beside` with a name that nobody can foresee, and the name.
///
/// # Errors
/// The operating system's.
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

/// Puts `bytes` at `path`, whole or not at all, by way of a temporary file beside it. Where a link stands there, the
/// link is replaced and not what it leads to.
///
/// # Errors
/// The operating system's; the temporary file is gone.
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
/// The operating system's, or that it is no regular file.
pub fn open_read(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match options.read(true).custom_flags(flags).open(path) {
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
            return Err(io::Error::other("it is a link, and a recording has none"));
        }
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

/// A file of a recording, `most` bytes long at most.
///
/// # Errors
/// As [`open_read`], or that it is longer.
pub fn read_whole(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_read(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Whether an error says that there is no room, rather than that something is broken.
pub fn is_full(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Puts `bytes` at `path` so that a reader finds the old contents or the new ones, never a mixture, whenever the
/// power goes.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = part_of(path);
    let mut out = disk.create(&part)?;
    out.write_at(bytes, 0)?;
    out.sync()?;
    disk.rename(&part, path)?;
    disk.sync_dir(parent(path))
}

/// The directory that holds the entry of `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if p != Path::new("") => p,
        _ => Path::new("."),
    }
}

/// Name of a file that is not whole yet; readers skip it.
pub(crate) fn part_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}
