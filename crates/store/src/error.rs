use crate::disk::is_full;
use crate::owner::Owner;
use std::io;
use std::path::{Path, PathBuf};

/// Error of a recording on disk.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{} exists already. Choose another name, or remove it first: a recording is never written over.", path.display())]
    Exists { path: PathBuf },

    #[error("{} is not a recording: {why}. Give the directory that holds meta.json.", path.display())]
    NotARecording { path: PathBuf, why: String },

    #[error(
        "{} is record version {found}; this build reads {}. Upgrade this program to read it.",
        path.display(),
        versions(*supported)
    )]
    NewerFormat {
        path: PathBuf,
        found: u64,
        supported: u32,
    },

    #[error("{} is being written to by {owner}. Stop that one first, or record under another name.", path.display())]
    InUse { path: PathBuf, owner: Owner },

    #[error("{} is damaged: {what}. The other files of the recording are independent of it: move this one away to read them.", file.display())]
    Damaged { file: PathBuf, what: String },

    #[error(
        "the disk is full: cannot write {} ({rows_saved} of its rows are saved and readable). Free some space, or record to another disk.",
        file.display()
    )]
    DiskFull { file: PathBuf, rows_saved: u64 },

    #[error("cannot {action} {}: {source}{}", path.display(), hint(source))]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

fn versions(supported: u32) -> String {
    if supported == 1 {
        "1".into()
    } else {
        format!("1 to {supported}")
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            ". Choose a directory that you may write to, or change its owner."
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ". The file system is mounted read-only: choose another place."
        }
        io::ErrorKind::NotFound => ". Does the directory above it exist?",
        _ => "",
    }
}

impl StoreError {
    /// Builds an I/O error. `rows_saved`: rows of this file that are safe.
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
        rows_saved: u64,
        source: io::Error,
    ) -> StoreError {
        if is_full(&source) {
            StoreError::DiskFull {
                file: path.to_owned(),
                rows_saved,
            }
        } else {
            StoreError::Io {
                action,
                path: path.to_owned(),
                source,
            }
        }
    }
}
