//! Content list of a closed recording: its files, their hashes and their rows.

use crate::release::Version;
use base::record::TableId;
use measure::keys::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Greatest number of files of a recording, and greatest size of one.
const FILES: usize = 4096;
const LARGEST: u64 = 4 << 30;

/// File of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Path within the recording: `meta.json`, or `TABLE/DAY.parquet`.
    pub path: String,
    pub bytes: u64,
    /// SHA-256 of the content, hexadecimal.
    pub sha256: String,
}

/// Closed recording, as the agent states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the recording on its point.
    pub recording: String,
    /// Measurement of the plan, and number of the plan.
    pub measurement: String,
    pub plan: u64,
    /// Version of the agent.
    pub agent: String,
    /// Begin and end by the point's clock, UNIX ns.
    pub started_ns: i64,
    pub ended_ns: i64,
    /// Time since the point's clock was synchronised when the recording ended, s.
    pub since_sync_s: Option<u64>,
    pub files: Vec<Part>,
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{0:?} is no name of a recording: lower-case letters, digits, '-' and '.' only")]
    Name(String),
    #[error("{0:?} is no path of a recording's file")]
    Path(String),
    #[error("{0} is named twice")]
    Twice(String),
    #[error("a recording has 1 to {FILES} files, this one has {0}")]
    Count(usize),
    #[error("{path} has {bytes} bytes, more than {LARGEST}")]
    Large { path: String, bytes: u64 },
    #[error("no meta.json")]
    NoMeta,
    #[error("{0:?} is no table")]
    Table(String),
    #[error("it ends before it begins")]
    Time,
    #[error("{path}: {why}")]
    Content { path: String, why: String },
}

/// True for a recording's name that is safe as a file's name and in a URL.
pub(crate) fn is_recording(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    (1..=128).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with(['.', '-'])
        && !text.contains("..")
}

/// Checks the path of a part.
pub(crate) fn is_part(path: &str) -> bool {
    if path == "meta.json" {
        return true;
    }
    let Some((table, file)) = path.split_once('/') else {
        return false;
    };
    let stem = file.strip_suffix(".parquet").unwrap_or_default();
    let allowed = |b: u8| b.is_ascii_digit() || b == b'-';
    TableId::ALL.iter().any(|t| t.spec().name == table)
        && (10..=20).contains(&stem.len())
        && stem.bytes().all(allowed)
}

/// SHA-256 of a file's content and its length.
///
/// # Errors
/// The errors of the operating system.
pub(crate) fn digest(path: &Path) -> std::io::Result<(String, u64)> {
    let mut file = store::disk::open_read(path)?;
    let (mut sha, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((hex(&sha.finalize()), bytes));
        }
        sha.update(&buffer[..n]);
        bytes += n as u64;
    }
}

impl Manifest {
    /// Checks everything that needs no file.
    ///
    /// # Errors
    /// Names the fault.
    pub fn check(&self) -> Result<(), ManifestError> {
        if !is_recording(&self.recording) {
            return Err(ManifestError::Name(self.recording.clone()));
        }
        if self.files.is_empty() || self.files.len() > FILES {
            return Err(ManifestError::Count(self.files.len()));
        }
        let mut seen = BTreeSet::new();
        for part in &self.files {
            if !is_part(&part.path) {
                return Err(ManifestError::Path(part.path.clone()));
            }
            if part.bytes > LARGEST {
                return Err(ManifestError::Large {
                    path: part.path.clone(),
                    bytes: part.bytes,
                });
            }
            if !seen.insert(&*part.path) {
                return Err(ManifestError::Twice(part.path.clone()));
            }
        }
        if !seen.contains("meta.json") {
            return Err(ManifestError::NoMeta);
        }
        let known = |name: &str| TableId::ALL.iter().any(|t| t.spec().name == name);
        if let Some(unknown) = self.rows.keys().find(|name| !known(name)) {
            return Err(ManifestError::Table(unknown.clone()));
        }
        if self.ended_ns < self.started_ns {
            return Err(ManifestError::Time);
        }
        Ok(())
    }

    /// Hash of the whole list: two recordings of one name are the same if it is the same.
    ///
    /// # Panics
    /// Never: a list of texts and numbers is always JSON.
    pub fn hash(&self) -> String {
        let text = serde_json::to_string(self).expect("texts and numbers");
        hex(&Sha256::digest(text))
    }

    /// Rows of all tables.
    pub fn all_rows(&self) -> u64 {
        self.rows.values().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Bytes of all files.
    pub fn all_bytes(&self) -> u64 {
        let sizes = self.files.iter().map(|f| f.bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Lists a closed recording.
    ///
    /// # Errors
    /// A file that cannot be read, or damage.
    pub fn of(directory: &Path, recording: &str, measurement: &str) -> anyhow::Result<Manifest> {
        let meta = store::read_meta(directory)?;
        let mut files = Vec::new();
        let mut add = |path: String, at: PathBuf| -> anyhow::Result<()> {
            let (sha256, bytes) = digest(&at)?;
            files.push(Part {
                path,
                bytes,
                sha256,
            });
            Ok(())
        };
        add("meta.json".into(), directory.join("meta.json"))?;
        for file in store::files(directory)? {
            let path = format!("{}/{}.parquet", file.table.spec().name, file.stem);
            add(path.clone(), directory.join(path))?;
        }
        let (rows, _) = count_rows(directory)?;
        Ok(Manifest {
            recording: recording.into(),
            measurement: measurement.into(),
            plan: 0,
            agent: Version::running().to_string(),
            started_ns: meta.started_ns,
            ended_ns: meta.ended_ns.unwrap_or(meta.started_ns),
            since_sync_s: None,
            files,
            rows,
        })
    }

    /// Compares the files below `directory` with the list, down to the last row.
    ///
    /// # Errors
    /// Names the first file that differs, and how.
    pub fn verify(&self, directory: &Path) -> anyhow::Result<()> {
        let refuse = |path: &str, why: String| ManifestError::Content {
            path: path.into(),
            why,
        };
        for part in &self.files {
            let (sha256, bytes) = digest(&directory.join(&part.path))
                .map_err(|e| refuse(&part.path, e.to_string()))?;
            if bytes != part.bytes {
                return Err(refuse(
                    &part.path,
                    format!("{bytes} bytes, the list says {}", part.bytes),
                )
                .into());
            }
            if sha256 != part.sha256 {
                return Err(
                    refuse(&part.path, "its SHA-256 differs from the list's".into()).into(),
                );
            }
        }
        let listed: BTreeSet<&str> = self.files.iter().map(|f| &*f.path).collect();
        for file in store::files(directory)? {
            let path = format!("{}/{}.parquet", file.table.spec().name, file.stem);
            if !listed.contains(&*path) || !file.sealed {
                return Err(refuse(&path, "it is not on the list".into()).into());
            }
        }
        let meta = store::read_meta(directory)?;
        if meta.started_ns != self.started_ns {
            return Err(refuse("meta.json", "another begin than the list says".into()).into());
        }
        let (rows, damage) = count_rows(directory)?;
        if let Some(damage) = damage {
            return Err(refuse("rows", damage).into());
        }
        if rows != self.rows {
            return Err(refuse("rows", format!("{rows:?}, the list says {:?}", self.rows)).into());
        }
        Ok(())
    }
}

/// Rows of each table that has any, and the first damage found.
fn count_rows(directory: &Path) -> anyhow::Result<(BTreeMap<String, u64>, Option<String>)> {
    let (mut rows, mut damage) = (BTreeMap::new(), None);
    for &table in TableId::ALL {
        let mut n = 0u64;
        let notes = store::each_row(directory, table, &mut |_| n += 1)?;
        if n > 0 {
            rows.insert(table.spec().name.to_owned(), n);
        }
        damage = damage.or_else(|| notes.first().map(ToString::to_string));
    }
    Ok((rows, damage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for good in ["adsl-2026-11-23t10.30.00z.rec", "a"] {
            assert!(is_recording(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "../a",
            "A",
            "a..b",
            "-a",
            "a b",
            "a\0",
            &"a".repeat(129),
        ] {
            assert!(!is_recording(bad), "{bad:?}");
        }
        for good in [
            "meta.json",
            "delay/2026-11-23.parquet",
            "delay/2026-11-23-002.parquet",
        ] {
            assert!(is_part(good), "{good}");
        }
        for bad in [
            "",
            "delay",
            "delay/",
            "delay/2026-11-23.arrows",
            "delay/../../etc.parquet",
            "nothing/2026-11-23.parquet",
            "/delay/2026-11-23.parquet",
            "delay/x/2026-11-23.parquet",
            "report.html",
        ] {
            assert!(!is_part(bad), "{bad:?}");
        }
    }
}
