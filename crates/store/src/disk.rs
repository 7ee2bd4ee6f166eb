//! The few operations a recording needs of a file system, behind a trait so that tests can make any one of them
//! fail. All paths are whole; all writes go to a stated offset, so that a write that was cut short can be repeated.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

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
        std::fs::create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(File::create(path)?))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(OpenOptions::new().write(true).open(path)?))
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
