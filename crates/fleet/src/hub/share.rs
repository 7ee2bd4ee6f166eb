//! Shared recordings: one recording behind a one-time code, with a report page of its own.
//!
//! A shared recording is the only recording of a point whose name is random, `share-` and 32 hexadecimal digits. It takes an agent's way
//! into the store, with every check. Whoever knows the name reads its page; the holder of the private key withdraws it.

use super::{Hub, INVITATION_S, IntakeError};
use crate::invitation::Invitation;
use crate::unix_s;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Begin of the name of a shared recording's point.
const PREFIX: &str = "share-";
/// Name of each shared recording: the sender's own name for it stays with the sender.
pub(crate) const RECORDING: &str = "shared.rec";
/// Greatest number of rows of a shared recording.
const ROWS: u64 = 5_000_000;
/// Greatest number of files of a shared recording in transfer.
const FILES: u64 = 4096;
/// Longest time and greatest memory (resident) for the drawing of a page.
const DRAWING: Duration = Duration::from_secs(60);
const MEMORY: u64 = 1 << 30;

/// Limits on shared recordings, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// All shared recordings, those in transfer included.
    pub all: u64,
    /// Each shared recording.
    pub each: u64,
}

/// State of a shared recording's page.
pub(super) enum Page {
    Ready(Vec<u8>),
    /// It must be drawn first.
    Missing,
    Withdrawn,
    Unknown,
}

/// True for the name of a shared recording's point.
pub(crate) fn is_share(point: &str) -> bool {
    point.starts_with(PREFIX)
}

/// Point behind the last part of a page's address; none if it is not 32 hexadecimal digits.
fn point_of(address: &str) -> Option<String> {
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (address.len() == 32 && address.bytes().all(is_digit)).then(|| format!("{PREFIX}{address}"))
}

/// Last part of the address of a point's page.
pub(crate) fn address_of(point: &str) -> Option<&str> {
    point.strip_prefix(PREFIX)
}

/// Memory of a process (resident), bytes; 0 if it has ended.
fn resident(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

/// Draws a page in another process: a recording from a stranger can neither end the hub nor fill its memory.
fn draw(recording: &Path, page: &Path) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find the program itself")?;
    let mut command = Command::new(program);
    command.arg("report").arg(recording).arg("--quiet");
    command.arg("--output").arg(page);
    let mut child = live::interrupted_with_parent(&mut command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the drawing of a page")?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            anyhow::ensure!(status.success(), "the report could not be made ({status})");
            return Ok(());
        }
        if began.elapsed() > DRAWING || resident(&child) > MEMORY {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("the report takes too much time or memory");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Hub {
    /// The same hub, which takes shared recordings within these limits.
    #[must_use]
    pub fn with_sharing(self, sharing: Option<Sharing>) -> Hub {
        Hub { sharing, ..self }
    }

    /// Makes a one-time code with which one recording is shared.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn invite_share(&self) -> anyhow::Result<Invitation> {
        let name = format!("{PREFIX}{}", live::web::new_token()?);
        let made = Invitation::new(self.pin())?;
        let now = unix_s();
        let trace = Invitation::trace(&made.secret);
        self.ledger()
            .invite(&trace, &name, now, now + INVITATION_S)?;
        Ok(made)
    }

    /// Checks a piece of a shared recording: the one name, the limits, and that nothing is closed yet.
    pub(super) fn check_share(
        &self,
        point: &str,
        recording: &str,
        more: u64,
    ) -> Result<(), IntakeError> {
        let Some(limits) = self.sharing else {
            return Err(IntakeError::NoSharing);
        };
        if recording != RECORDING {
            return Err(IntakeError::Recording(recording.into()));
        }
        if self.ledger().recording(point, recording)?.is_some() {
            return Err(IntakeError::Taken);
        }
        let incoming = self.data.join("incoming");
        let sum = |directory: &Path| super::intake::sums_below(directory);
        let (bytes, files) = sum(&incoming.join(point)).context("cannot sum up files")?;
        if files > FILES {
            return Err(IntakeError::Files);
        }
        if bytes.saturating_add(more) > limits.each {
            let limit = limits.each;
            return Err(IntakeError::Share { limit });
        }
        let mut all = self
            .ledger()
            .bytes_shared(PREFIX)
            .context("cannot sum up")?;
        for name in crate::durable::names(&incoming)? {
            if is_share(&name) {
                all += sum(&incoming.join(name)).context("cannot sum up files")?.0;
            }
        }
        if all.saturating_add(more) > limits.all {
            let (limit, of) = (limits.all, "of shared recordings");
            return Err(IntakeError::Quota { limit, of });
        }
        Ok(())
    }

    /// Checks the list of a shared recording.
    pub(super) fn check_share_list(
        &self,
        manifest: &crate::manifest::Manifest,
    ) -> Result<(), IntakeError> {
        let limits = self.sharing.ok_or(IntakeError::NoSharing)?;
        if manifest.recording != RECORDING {
            return Err(IntakeError::Recording(manifest.recording.clone()));
        }
        if manifest.all_bytes() > limits.each {
            let limit = limits.each;
            return Err(IntakeError::Share { limit });
        }
        match manifest.all_rows() > ROWS {
            true => Err(IntakeError::Rows { limit: ROWS }),
            false => Ok(()),
        }
    }

    fn page_file(&self, point: &str) -> PathBuf {
        self.data.join("pages").join(format!("{point}.html"))
    }

    /// Page at the end of an address.
    ///
    /// # Errors
    /// The ledger or the page cannot be read.
    pub(super) fn shared_page(&self, address: &str) -> anyhow::Result<Page> {
        let Some(point) = point_of(address).filter(|_| self.sharing.is_some()) else {
            return Ok(Page::Unknown);
        };
        match self.ledger().point(&point)? {
            None => return Ok(Page::Unknown),
            Some(known) if known.revoked => return Ok(Page::Withdrawn),
            Some(_) => {}
        }
        if self.ledger().stored(&point)?.is_empty() {
            return Ok(Page::Unknown);
        }
        match store::disk::open_read(&self.page_file(&point)) {
            Ok(mut file) => {
                let mut page = Vec::new();
                std::io::Read::read_to_end(&mut file, &mut page)?;
                Ok(Page::Ready(page))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Page::Missing),
            Err(e) => Err(e.into()),
        }
    }

    /// Draws the page at the end of an address, one at a time; a page that is asked for meanwhile waits for its next request.
    ///
    /// # Errors
    /// The disk. A recording of which no report can be made gets a page that says so.
    pub(super) fn draw_shared(&self, address: &str) -> anyhow::Result<()> {
        let Some(point) = point_of(address) else {
            return Ok(());
        };
        let Ok(_alone) = self.drawing.try_lock() else {
            return Ok(());
        };
        let page = self.page_file(&point);
        if page.exists() {
            return Ok(());
        }
        let scratch = self.data.join("pages").join(".drawing.html");
        if let Err(e) = draw(&self.recordings(&point).join(RECORDING), &scratch) {
            eprintln!("tailback hub: {point}: {e:#}");
            let text = "<!doctype html><meta charset=\"utf-8\"><title>Shared recording</title>\
                <p>No report can be made of this recording.";
            std::fs::write(&scratch, text)?;
        }
        crate::durable::rename(&scratch, &page)?;
        // Withdrawn meanwhile, perhaps by another process.
        if self.ledger().point(&point)?.is_none_or(|p| p.revoked) {
            self.remove_page(&point)?;
        }
        Ok(())
    }

    pub(super) fn remove_page(&self, point: &str) -> anyhow::Result<()> {
        match std::fs::remove_file(self.page_file(point)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(crate::durable::sync_directory(&self.data.join("pages"))?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_32_hexadecimal_digits_are_an_address() {
        let good = "0123456789abcdef0123456789abcdef";
        assert_eq!(point_of(good).as_deref(), Some(&*format!("share-{good}")));
        let long = format!("{good}0");
        for bad in [
            "",
            "..",
            "../points",
            &good[1..],
            &long,
            &good.to_uppercase(),
            &"/".repeat(32),
        ] {
            assert_eq!(point_of(bad), None, "{bad:?}");
        }
    }
}
