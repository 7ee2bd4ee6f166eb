//! The agent's spool: recordings from their end to the hub's receipt.
//!
//! `spool/NAME.rec` is a recording. `closed/NAME.json` is its manifest, written once the recording is closed. With a receipt
//! both go. `sums.json` counts what has gone, so that every row that was ever closed is counted exactly once.

use super::client::{Client, HubRefuses};
use crate::durable;
use crate::identity::PublicKey;
use crate::manifest::Manifest;
use crate::wire::{CHUNK, Have, Receipt, Verdict};
use anyhow::Context;
use hyper::Method;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Sums over recordings that have left the spool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sums {
    recordings: u64,
    rows: u64,
    /// Recording that was counted last: its files may still be there after a crash.
    last: Option<String>,
}

/// Spool in its directory.
pub struct Spool {
    home: PathBuf,
    sums: Sums,
    /// Manifests of closed recordings, by name.
    closed: BTreeMap<String, Manifest>,
}

pub(super) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .with_context(|| format!("{} is damaged", path.display())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    durable::write(path, &serde_json::to_vec_pretty(value)?)
}

impl Spool {
    /// Opens the spool below the agent's directory, and finishes what a crash interrupted.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged.
    pub fn open(home: &Path) -> anyhow::Result<Spool> {
        for name in ["spool", "closed", "rejected"] {
            durable::create_directories(&home.join(name))?;
        }
        let sums: Sums = read(&home.join("sums.json"))?.unwrap_or_default();
        let mut spool = Spool {
            home: home.to_owned(),
            sums,
            closed: BTreeMap::new(),
        };
        if let Some(last) = spool.sums.last.clone() {
            spool.remove(&last)?;
        }
        for name in durable::names(&home.join("closed"))? {
            if let Some(name) = name.strip_suffix(".json")
                && let Some(manifest) = read(&spool.manifest_path(name))?
            {
                spool.closed.insert(name.into(), manifest);
            }
        }
        Ok(spool)
    }

    /// Directory of a recording.
    pub fn recording(&self, name: &str) -> PathBuf {
        self.home.join("spool").join(name)
    }

    fn manifest_path(&self, name: &str) -> PathBuf {
        self.home.join("closed").join(format!("{name}.json"))
    }

    /// Names of recordings that have no manifest yet.
    ///
    /// # Errors
    /// The spool cannot be listed.
    pub fn open_recordings(&self) -> anyhow::Result<Vec<String>> {
        let mut all = durable::names(&self.home.join("spool"))?;
        all.retain(|name| !self.closed.contains_key(name));
        Ok(all)
    }

    /// Closes a recording whose writer has ended: rows of a writer that crashed become Parquet, then the manifest is written.
    ///
    /// # Errors
    /// A recording that cannot be read or written.
    pub fn close(&mut self, name: &str, about: &dyn Fn(&mut Manifest)) -> anyhow::Result<u64> {
        let directory = self.recording(name);
        seal(&directory)?;
        let measurement = name.split('.').next().unwrap_or(name);
        let mut manifest = Manifest::of(&directory, name, measurement)?;
        about(&mut manifest);
        manifest.check()?;
        write_json(&self.manifest_path(name), &manifest)?;
        let rows = manifest.all_rows();
        self.closed.insert(name.into(), manifest);
        Ok(rows)
    }

    /// Moves a recording that nothing can be made of out of the way.
    ///
    /// # Errors
    /// The recording cannot be moved.
    pub fn reject(&mut self, name: &str) -> anyhow::Result<()> {
        let to = self.home.join("rejected").join(name);
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        durable::rename(&self.recording(name), &to)
    }

    fn remove(&mut self, name: &str) -> anyhow::Result<()> {
        let gone = |done: io::Result<()>| match done {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
        // On the disk before the next recording takes this one's place in `sums.json`.
        gone(std::fs::remove_file(self.manifest_path(name)))
            .and_then(|()| durable::sync_directory(&self.home.join("closed")))
            .and_then(|()| gone(std::fs::remove_dir_all(self.recording(name))))
            .and_then(|()| durable::sync_directory(&self.home.join("spool")))
            .with_context(|| format!("cannot remove {name}"))?;
        self.closed.remove(name);
        Ok(())
    }

    /// Counts a recording as gone, then removes it (`keep`: moves it to `rejected/`).
    fn release(&mut self, name: &str, keep: bool) -> anyhow::Result<()> {
        let rows = self.closed.get(name).map_or(0, Manifest::all_rows);
        self.sums.recordings += 1;
        self.sums.rows += rows;
        self.sums.last = Some(name.into());
        write_json(&self.home.join("sums.json"), &self.sums)?;
        if keep {
            self.reject(name)?;
        }
        self.remove(name)
    }

    /// Recordings and rows that were ever closed.
    pub fn ever_closed(&self) -> (u64, u64) {
        let rows: u64 = self.closed.values().map(Manifest::all_rows).sum();
        (
            self.sums.recordings + self.closed.len() as u64,
            self.sums.rows + rows,
        )
    }

    /// Closed recordings in the spool, and the bytes of all.
    pub fn waiting(&self) -> (u64, u64) {
        let bytes = self.closed.values().map(Manifest::all_bytes).sum();
        (self.closed.len() as u64, bytes)
    }

    /// Name and bytes of the closed recording that began first.
    pub fn oldest(&self) -> Option<(String, u64)> {
        let oldest = self.closed.iter().min_by_key(|(_, m)| m.started_ns);
        oldest.map(|(name, m)| (name.clone(), m.all_bytes()))
    }

    /// Uploads one closed recording. With the hub's receipt it leaves the spool.
    ///
    /// # Errors
    /// The hub cannot be reached, refuses, or gives a receipt that is not its own; the recording then stays.
    pub fn upload(
        &mut self,
        name: &str,
        client: &mut Client,
        point: &str,
        hub: &PublicKey,
    ) -> anyhow::Result<Verdict> {
        let manifest = self.closed.get(name).context("no such recording")?.clone();
        for part in &manifest.files {
            let path = format!("/v1/recordings/{name}/files/{}", part.path);
            let file = store::disk::open_read(&self.recording(name).join(&part.path))?;
            send(client, &path, &file, part.bytes)?;
        }
        let body = serde_json::to_vec(&manifest)?;
        let receipt: Receipt = match client.call(Method::POST, "/v1/close", None, body) {
            Ok(receipt) => receipt,
            Err(e) => {
                let refused = e.downcast_ref::<HubRefuses>();
                if refused.is_some_and(|r| matches!(r.status, 400 | 422)) {
                    // The same list will be refused again: it must not hold up the others.
                    self.release(name, true)?;
                }
                return Err(e);
            }
        };
        if !receipt.is_for(&manifest, point, hub) {
            anyhow::bail!(
                "the receipt for {name} is not signed by the hub; the recording stays in the spool"
            );
        }
        self.release(name, receipt.verdict == Verdict::Quarantined)?;
        Ok(receipt.verdict)
    }
}

/// Sends what the hub does not have of a file yet.
pub(crate) fn send(client: &mut Client, path: &str, file: &File, size: u64) -> anyhow::Result<()> {
    let Have { bytes: mut have } = client.call(Method::GET, path, None, Vec::new())?;
    let mut piece = vec![0; CHUNK];
    while have < size {
        let n = ((size - have) as usize).min(CHUNK);
        file.read_exact_at(&mut piece[..n], have)?;
        let range = (have, have + n as u64 - 1);
        let answer: Have = client.call(Method::PUT, path, Some(range), piece[..n].to_vec())?;
        if answer.bytes <= have {
            anyhow::bail!("the hub keeps no more of {path} than {have} bytes");
        }
        have = answer.bytes;
    }
    Ok(())
}

/// Turns the open files of a writer that crashed into Parquet. What a power failure left incomplete at the end of a file
/// goes; it was never whole.
pub(crate) fn seal(directory: &Path) -> anyhow::Result<()> {
    const LAST_DAY: &str = "9999-99-99";
    for torn in store::seal_days(directory, LAST_DAY, &|| true)? {
        let file = OpenOptions::new().write(true).open(&torn.file)?;
        let whole = file.metadata()?.len().saturating_sub(torn.bytes_dropped);
        file.set_len(whole)?;
        file.sync_all()?;
    }
    store::seal_days(directory, LAST_DAY, &|| true)?;
    Ok(())
}
