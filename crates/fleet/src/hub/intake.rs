//! Way of a recording into the store: pieces of files, then the manifest that closes it.
//!
//! Files arrive below `incoming/`. When the manifest comes, everything is checked, made durable and moved into `points/` by one
//! rename; the row of the ledger follows. A crash in between leaves a recording without a row, which [`Hub::settle`] moves back
//! to `incoming/` at the next start. The point then closes it again, because it has no receipt.

use super::share::is_share;
use super::{Hub, lock};
use crate::durable;
use crate::identity::Signature;
use crate::manifest::{Manifest, is_part, is_recording};
use crate::unix_s;
use crate::wire::{CHUNK, Receipt, Verdict};
use anyhow::Context;
use nix::fcntl::OFlag;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::disk::parent;

/// Bytes that one point may have in transfer.
const IN_TRANSFER: u64 = 8 << 30;

/// Fault of a request about a recording.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    #[error("{0:?} is no name of a recording")]
    Recording(String),
    #[error("{0:?} is no file of a recording")]
    Part(String),
    #[error("the hub has {have} bytes of this file, the piece begins at {from}")]
    Gap { have: u64, from: u64 },
    #[error("a piece has at most {CHUNK} bytes")]
    Large,
    #[error("more than {IN_TRANSFER} bytes in transfer: close a recording first")]
    InTransfer,
    #[error("the hub keeps at most {limit} bytes {of}; the recording stays at the point")]
    Quota { limit: u64, of: &'static str },
    #[error("a restart of the hub may have lost pieces: send the files again")]
    Torn,
    #[error("the hub takes no shared recordings: its operator starts it with --shared SIZE")]
    NoSharing,
    #[error("a shared recording has at most {limit} bytes here")]
    Share { limit: u64 },
    #[error("a shared recording has at most {limit} rows")]
    Rows { limit: u64 },
    #[error("too many files in transfer")]
    Files,
    #[error("the hub has ended this point's access")]
    Ended,
    #[error("another recording of this name is in the ledger")]
    Taken,
    #[error("{0}")]
    Manifest(#[from] crate::manifest::ManifestError),
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// Size of a file, 0 if there is none.
fn size(path: &Path) -> io::Result<u64> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

/// Sum of the sizes of all files below a directory, and their number.
pub(super) fn sums_below(directory: &Path) -> io::Result<(u64, u64)> {
    let (mut sum, mut files) = (0, 0);
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let entry = entry?;
        let (bytes, n) = match entry.file_type()?.is_dir() {
            true => sums_below(&entry.path())?,
            false => (entry.metadata()?.len(), 1),
        };
        sum += bytes;
        files += n;
    }
    Ok((sum, files))
}

/// Makes all files of a recording durable, and the directories above them.
fn sync_all(directory: &Path, manifest: &Manifest) -> io::Result<()> {
    let mut directories = BTreeSet::new();
    for part in &manifest.files {
        let path = directory.join(&part.path);
        File::open(&path)?.sync_all()?;
        directories.insert(parent(&path).to_owned());
    }
    directories.insert(directory.to_owned());
    directories
        .iter()
        .try_for_each(|d| durable::sync_directory(d))
}

impl Hub {
    fn incoming(&self, point: &str, recording: &str) -> PathBuf {
        self.data.join("incoming").join(point).join(recording)
    }

    fn stored(&self, point: &str, recording: &str) -> PathBuf {
        self.recordings(point).join(recording)
    }

    /// Number of bytes of a file that the hub has.
    ///
    /// # Errors
    /// Names that are not allowed.
    pub fn have(&self, point: &str, recording: &str, part: &str) -> Result<u64, IntakeError> {
        check_names(recording, part)?;
        let stored = self.stored(point, recording).join(part);
        let incoming = self.incoming(point, recording).join(part);
        let sizes = || -> io::Result<u64> { Ok(size(&stored)?.max(size(&incoming)?)) };
        Ok(sizes().context("cannot look up a file")?)
    }

    /// Keeps a piece of a file; returns the number of bytes that the hub has then. A piece that it has already is left out.
    ///
    /// # Errors
    /// Names that are not allowed, a gap, the quota, the disk.
    pub fn put(
        &self,
        point: &str,
        recording: &str,
        part: &str,
        from: u64,
        piece: &[u8],
    ) -> Result<u64, IntakeError> {
        if piece.len() > CHUNK {
            return Err(IntakeError::Large);
        }
        let have = self.have(point, recording, part)?;
        if from > have {
            return Err(IntakeError::Gap { have, from });
        }
        let until = from + piece.len() as u64;
        if until <= have {
            return Ok(have);
        }
        if is_share(point) {
            self.check_share(point, recording, piece.len() as u64)?;
        }
        self.check_quotas(point, piece.len() as u64)?;
        let path = self.incoming(point, recording).join(part);
        let write = || -> io::Result<()> {
            std::fs::create_dir_all(parent(&path))?;
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false).mode(0o640);
            options
                .custom_flags(OFlag::O_NOFOLLOW.bits())
                .open(&path)?
                .write_all_at(piece, from)
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        if have == 0 {
            lock(&self.whole).insert(path);
        }
        Ok(until)
    }

    fn check_quotas(&self, point: &str, more: u64) -> Result<(), IntakeError> {
        let (in_transfer, _) =
            sums_below(&self.data.join("incoming").join(point)).context("cannot sum up files")?;
        let in_transfer = in_transfer.saturating_add(more);
        if in_transfer > IN_TRANSFER {
            return Err(IntakeError::InTransfer);
        }
        let limits = [
            (self.quotas.point, Some(point), "of a point"),
            (self.quotas.all, None, "in all"),
        ];
        for (limit, whose, of) in limits {
            if let Some(limit) = limit {
                let kept = self
                    .ledger()
                    .bytes_kept(whose)
                    .context("cannot sum up recordings")?;
                if kept.saturating_add(in_transfer) > limit {
                    return Err(IntakeError::Quota { limit, of });
                }
            }
        }
        Ok(())
    }

    /// Moves a recording without a row in the ledger back to where it came from.
    fn take_back(&self, point: &str, name: &str) -> anyhow::Result<()> {
        for place in ["points", "quarantine"] {
            let from = self.data.join(place).join(point).join(name);
            if !from.exists() {
                continue;
            }
            let back = self.incoming(point, name);
            if back.exists() {
                // Sent again meanwhile. What stands in the store has passed all checks; what stands in quarantine has not.
                let worse = if place == "points" { &back } else { &from };
                std::fs::remove_dir_all(worse)?;
            }
            if from.exists() {
                durable::create_directories(parent(&back))?;
                durable::rename(&from, &back)?;
            }
        }
        Ok(())
    }

    /// Removes files of a transfer that this process has not received from the first byte on. True if there were any.
    fn drop_torn(&self, point: &str, manifest: &Manifest) -> io::Result<bool> {
        let incoming = self.incoming(point, &manifest.recording);
        let whole = lock(&self.whole);
        let mut torn = false;
        for part in &manifest.files {
            let path = incoming.join(&part.path);
            if !whole.contains(&path) && path.exists() {
                std::fs::remove_file(&path)?;
                torn = true;
            }
        }
        Ok(torn)
    }

    /// Checks a recording that has arrived, moves it into the store, and gives the receipt.
    ///
    /// # Errors
    /// A manifest that is not allowed, another recording of the same name, the disk. A check of the content that fails is no
    /// error: the receipt says "quarantined".
    pub fn close(&self, point: &str, manifest: &Manifest) -> Result<Receipt, IntakeError> {
        manifest.check()?;
        if is_share(point) {
            self.check_share_list(manifest)?;
        }
        let _alone = lock(&self.closing);
        let name = &manifest.recording;
        if let Some(known) = self.ledger().recording(point, name)? {
            return match known.manifest == manifest.hash() {
                true => Ok(known),
                false => Err(IntakeError::Taken),
            };
        }
        // A full disk may have kept the row from the ledger.
        self.take_back(point, name)?;
        let incoming = self.incoming(point, name);
        if let Some(part) = manifest
            .files
            .iter()
            .find(|p| size(&incoming.join(&p.path)).unwrap_or(0) < p.bytes)
        {
            let have = self.have(point, name, &part.path)?;
            return Err(IntakeError::Gap {
                have,
                from: part.bytes,
            });
        }
        let fault = manifest.verify(&incoming).err().map(|e| format!("{e:#}"));
        if fault.is_some()
            && self
                .drop_torn(point, manifest)
                .context("cannot remove a file")?
        {
            return Err(IntakeError::Torn);
        }
        let to = match fault {
            None => {
                sync_all(&incoming, manifest).context("cannot make the recording durable")?;
                self.stored(point, name)
            }
            Some(_) => self.data.join("quarantine").join(point).join(name),
        };
        durable::create_directories(parent(&to))?;
        durable::rename(&incoming, &to)?;
        let receipt = self.receipt(point, manifest, fault);
        if !self.ledger().add_recording(manifest, &receipt)? {
            std::fs::remove_dir_all(&to).context("cannot remove a recording")?;
            return Err(IntakeError::Ended);
        }
        lock(&self.whole).retain(|path| !path.starts_with(&incoming));
        Ok(receipt)
    }

    fn receipt(&self, point: &str, manifest: &Manifest, fault: Option<String>) -> Receipt {
        let mut receipt = Receipt {
            point: point.into(),
            recording: manifest.recording.clone(),
            verdict: match fault {
                None => Verdict::Stored,
                Some(_) => Verdict::Quarantined,
            },
            reason: fault,
            manifest: manifest.hash(),
            rows: manifest.all_rows(),
            received_s: unix_s(),
            signature: Signature([0; 64]),
        };
        receipt.signature = self.identity.sign(&receipt.message());
        receipt
    }

    /// Compares store and ledger after a crash: recordings without a row go back to where they came from. Returns
    /// sentences about what is missing from the store, which should be none.
    ///
    /// # Errors
    /// The directories or the ledger cannot be read.
    pub fn settle(&self) -> anyhow::Result<Vec<String>> {
        let mut faults = Vec::new();
        for place in ["points", "quarantine"] {
            for point in durable::names(&self.data.join(place))? {
                for recording in durable::names(&self.data.join(place).join(&point))? {
                    if self.ledger().recording(&point, &recording)?.is_none() {
                        self.take_back(&point, &recording)?;
                    }
                }
            }
        }
        // A guard in the head of a loop would be held through all of it.
        let points = self.ledger().all_points()?;
        for point in points {
            let incoming = self.data.join("incoming").join(&point.name);
            if point.revoked && incoming.exists() {
                std::fs::remove_dir_all(&incoming)?;
            }
            let stored = self.ledger().stored(&point.name)?;
            for (name, _) in stored {
                if !self.stored(&point.name, &name).join("meta.json").exists() {
                    faults.push(format!(
                        "{} of {} is in the ledger, not in the store",
                        name, point.name
                    ));
                }
            }
        }
        Ok(faults)
    }
}

/// Names of the directories in a directory.
fn check_names(recording: &str, part: &str) -> Result<(), IntakeError> {
    if !is_recording(recording) {
        return Err(IntakeError::Recording(recording.into()));
    }
    if !is_part(part) {
        return Err(IntakeError::Part(part.into()));
    }
    Ok(())
}
