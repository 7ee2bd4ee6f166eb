//! Changes of files that outlast a power failure.

use anyhow::Context;
use std::fs::File;
use std::io;
use std::path::Path;
use store::disk::parent;

/// Makes created, renamed and removed entries of a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes a file as a whole or not at all.
///
/// # Errors
/// Names the file.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    store::disk::write_whole(path, bytes)
        .and_then(|()| sync_directory(parent(path)))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Moves a file or directory within one file system.
///
/// # Errors
/// Names both.
pub fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::rename(from, to)
        .and_then(|()| sync_directory(parent(to)))
        .and_then(|()| sync_directory(parent(from)))
        .with_context(|| format!("cannot move {} to {}", from.display(), to.display()))
}

/// Creates a directory and those above it.
///
/// # Errors
/// Names the directory.
pub fn create_directories(path: &Path) -> anyhow::Result<()> {
    let create = || -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|p| !p.exists()).collect();
        std::fs::create_dir_all(path)?;
        missing.iter().try_for_each(|p| sync_directory(parent(p)))
    };
    create().with_context(|| format!("cannot create {}", path.display()))
}

/// True if the cause of a failure is a full disk.
pub fn is_full(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let stored = cause.downcast_ref::<store::StoreError>();
        let ledger = cause.downcast_ref::<rusqlite::Error>();
        io.is_some_and(store::disk::is_full)
            || matches!(stored, Some(store::StoreError::DiskFull { .. }))
            || ledger.and_then(rusqlite::Error::sqlite_error_code)
                == Some(rusqlite::ErrorCode::DiskFull)
    })
}

/// Names in a directory, in order, without hidden ones.
///
/// # Errors
/// Names the directory.
pub fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let list = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            names.extend(entry?.file_name().into_string());
        }
        names.retain(|n| !n.starts_with('.'));
        names.sort();
        Ok(names)
    };
    list().with_context(|| format!("cannot list {}", directory.display()))
}
