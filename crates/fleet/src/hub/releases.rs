//! Releases at the hub: taken in from the operator, handed out to points.

use super::Hub;
use super::ledger::{Counts, PointRelease};
use crate::durable;
use crate::release::{LARGEST, Label, ReleaseKey, Version, is_target};
use crate::unix_s;
use crate::wire::{CHUNK, ReleaseOffer, State};
use anyhow::Context;
use serde::Serialize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Shares that a release may have.
const MOST_STAGES: usize = 16;

/// State of the newest release.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ReleaseStatus {
    pub version: String,
    /// Share of the points that it is to reach now, per cent.
    pub share: u64,
    /// Time since it goes to this share, s.
    pub since_s: i64,
    /// Reason for which no further point gets it.
    pub halted: Option<String>,
    /// Points that were chosen for it, by outcome.
    pub points: Counts,
}

impl Hub {
    fn key_file(&self) -> PathBuf {
        self.data.join("keys/release.pub")
    }

    fn release_file(&self, version: Version, target: &str) -> PathBuf {
        self.data
            .join("releases")
            .join(version.to_string())
            .join(target)
    }

    /// Key that signs releases; none if the hub has none.
    ///
    /// # Errors
    /// The file cannot be read, or holds no key.
    pub fn release_key(&self) -> anyhow::Result<Option<ReleaseKey>> {
        let path = self.key_file();
        if !path.exists() {
            return Ok(None);
        }
        let text = ops::read_text(&path)?;
        text.parse()
            .map(Some)
            .map_err(|e: String| anyhow::anyhow!("{}: {e}", path.display()))
    }

    /// Sets the key that signs releases. Points that join from now on are told of it; others keep what they have.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn trust(&self, key: &ReleaseKey) -> anyhow::Result<()> {
        durable::write(&self.key_file(), format!("{key}\n").as_bytes())?;
        let what = format!("releases are signed with {key}");
        let ledger = self.ledger();
        Ok(ledger.audit(unix_s(), &ledger.who, &what)?)
    }

    /// Takes in a release: programs of one version for different processors, each with its signature in FILE.minisig. It goes to the
    /// first stage's points at once.
    ///
    /// # Errors
    /// The hub has no key; a signature does not hold; the version is not newer than the last; the disk.
    pub fn add_release(
        &self,
        files: &[PathBuf],
        stages: &[u64],
        stage_time: base::Duration,
    ) -> anyhow::Result<Vec<Label>> {
        let key = self.release_key()?.ok_or_else(|| {
            ops::usage("the hub knows no key for releases: give --key FILE.pub first")
        })?;
        let rises = stages.is_sorted_by(|a, b| a < b);
        let is_share = |s: &u64| (1..=100).contains(s);
        if !rises
            || !stages.iter().all(is_share)
            || stages.last() != Some(&100)
            || stages.len() > MOST_STAGES
        {
            return Err(ops::usage(
                "--stages are shares in per cent, each larger than the one before, the last 100",
            ));
        }
        let mut labels: Vec<Label> = Vec::new();
        let mut programs = Vec::new();
        for file in files {
            let (label, bytes, signature) = signed(&key, file)?;
            if let Some(first) = labels.first()
                && first.version != label.version
            {
                return Err(ops::usage(format!(
                    "{} is signed as {}, {} as {}: publish one version at a time",
                    files[0].display(),
                    first.version,
                    file.display(),
                    label.version
                )));
            }
            if labels.contains(&label) {
                return Err(ops::usage(format!(
                    "two of the files are for {}",
                    label.target
                )));
            }
            programs.push((label.target.clone(), bytes, signature));
            labels.push(label);
        }
        let version = labels
            .first()
            .map(|l| l.version)
            .ok_or_else(|| ops::usage("no file"))?;
        if let Some(last) = self.ledger().rollout()?
            && last.version >= version
        {
            return Err(ops::usage(format!(
                "release {} is published already; {version} is not newer",
                last.version
            )));
        }
        for (file, (target, _, signature)) in files.iter().zip(&programs) {
            let to = self.release_file(version, target);
            durable::create_directories(store::disk::parent(&to))?;
            durable::write(&to, &std::fs::read(file)?)?;
            // The file may have changed since it was checked.
            key.verified(&to, signature)?;
        }
        let stage_time_s = (stage_time.as_nanos() / 1_000_000_000).cast_signed();
        let now = unix_s();
        self.ledger()
            .add_release(now, (version, &programs), (stages, stage_time_s))?;
        self.roll_out()?;
        Ok(labels)
    }

    /// Halts the newest release, or lets it go on.
    ///
    /// # Errors
    /// There is none; the ledger cannot be written.
    pub fn halt_release(&self, halt: bool) -> anyhow::Result<Version> {
        let mut ledger = self.ledger();
        let why = format!("by the {}", ledger.who);
        let version = ledger.halt_release(unix_s(), halt.then_some(&why))?;
        drop(ledger);
        self.roll_out()?;
        Ok(version)
    }

    /// Moves the newest release on.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn roll_out(&self) -> anyhow::Result<()> {
        let Some(rollout) = self.ledger().rollout()? else {
            return Ok(());
        };
        let key = self.release_key()?;
        let may = |state: &State| {
            let exists = self.release_file(rollout.version, &state.target).exists();
            is_target(&state.target)
                && state.release_key.is_some()
                && state.release_key == key
                && exists
        };
        self.ledger().roll_out(unix_s(), &may)
    }

    /// Notes what a point's state says about releases; returns the one that it is to try.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub(super) fn release_for(
        &self,
        point: &str,
        state: &State,
    ) -> anyhow::Result<Option<ReleaseOffer>> {
        let mut ledger = self.ledger();
        let Some(rollout) = ledger.rollout()? else {
            return Ok(None);
        };
        ledger.note_release(point, unix_s(), (rollout.version, state))?;
        let at = ledger.release_at(rollout.version, point)?;
        let is_chosen = |at: &PointRelease| matches!(&*at.outcome, "waiting" | "trying");
        if rollout.halted.is_some() || !at.is_some_and(|at| is_chosen(&at)) {
            return Ok(None);
        }
        let found = ledger.release(rollout.version, &state.target)?;
        Ok(found.map(|(bytes, signature)| ReleaseOffer {
            version: rollout.version,
            bytes,
            signature,
        }))
    }

    /// Piece of a release, one chunk at most; none if there is no such release.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn release_piece(
        &self,
        version: Version,
        target: &str,
        from: u64,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let Some((bytes, _)) = self.ledger().release(version, target)? else {
            return Ok(None);
        };
        let mut piece = vec![0; bytes.saturating_sub(from).min(CHUNK as u64) as usize];
        let path = self.release_file(version, target);
        let file = store::disk::open_read(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        file.read_exact_at(&mut piece, from)?;
        Ok(Some(piece))
    }

    /// State of the newest release.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn release_status(&self) -> anyhow::Result<Option<(Version, ReleaseStatus)>> {
        let ledger = self.ledger();
        let Some(rollout) = ledger.rollout()? else {
            return Ok(None);
        };
        let status = ReleaseStatus {
            version: rollout.version.to_string(),
            share: rollout.share(),
            since_s: unix_s() - rollout.since_s,
            points: ledger.release_counts(rollout.version)?,
            halted: rollout.halted,
        };
        Ok(Some((rollout.version, status)))
    }
}

/// Label, size and signature of a program.
fn signed(key: &ReleaseKey, file: &Path) -> anyhow::Result<(Label, u64, String)> {
    let mut name = file.as_os_str().to_owned();
    name.push(".minisig");
    let signature = ops::read_text(Path::new(&name)).with_context(|| {
        format!(
            "{} is not signed; sign it with `minisign -S -t 'tailback VERSION {}' -m {}`",
            file.display(),
            crate::release::target(),
            file.display()
        )
    })?;
    let bytes = std::fs::metadata(file)
        .with_context(|| format!("cannot read {}", file.display()))?
        .len();
    if bytes == 0 || bytes > LARGEST {
        return Err(ops::usage(format!(
            "{} has {bytes} bytes, a program has 1 to {LARGEST}",
            file.display()
        )));
    }
    let label = key.verified(file, &signature)?;
    Ok((label, bytes, signature))
}
