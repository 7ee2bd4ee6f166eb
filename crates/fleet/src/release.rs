//! Releases: programs with which a point replaces its own, signed by a key that is not the hub's.
//!
//! A signature is one of minisign (prehashed Ed25519). Its trusted comment is `tailback VERSION PROCESSOR-SYSTEM`, such as
//! `tailback 1.2.0 x86_64-linux`, and is signed, too. So a hub can neither offer a program of its own nor an old one as new.

use anyhow::{Context, bail};
use minisign_verify::{PublicKey, Signature};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

/// Largest program, bytes.
pub(crate) const LARGEST: u64 = 512 << 20;
/// Longest text of a signature, bytes.
const LONGEST_SIGNATURE: usize = 1024;
/// Variable with the version of the release as which a program was started.
pub(crate) const AS: &str = "TAILBACK_RELEASE";

/// Version of a release: `MAJOR.MINOR.PATCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version([u32; 3]);

impl Version {
    /// Version of the program that runs: that of the release as which it was started, or else its own.
    ///
    /// # Panics
    /// Never: the program's own version has three numbers.
    pub fn running() -> Version {
        static RUNNING: OnceLock<Version> = OnceLock::new();
        *RUNNING.get_or_init(|| {
            let given = std::env::var(AS).ok().and_then(|text| text.parse().ok());
            given.unwrap_or_else(Version::own)
        })
    }

    /// Version of this program.
    ///
    /// # Panics
    /// Never: it has three numbers.
    pub(crate) fn own() -> Version {
        env!("CARGO_PKG_VERSION").parse().expect("three numbers")
    }
}

impl FromStr for Version {
    type Err = String;
    fn from_str(text: &str) -> Result<Version, String> {
        let wrong = || format!("{text:?} is no version: write it as 1.2.0");
        // One way to write each: it becomes a file's name.
        let number = |part: &str| {
            let is_plain = part == "0" || !part.starts_with(['0', '+']);
            part.parse().ok().filter(|_| is_plain)
        };
        let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
        let parts = parts.ok_or_else(wrong)?;
        Ok(Version(parts.try_into().map_err(|_| wrong())?))
    }
}

impl TryFrom<String> for Version {
    type Error = String;
    fn try_from(text: String) -> Result<Version, String> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> String {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Processor and system of this program, such as `x86_64-linux`.
pub(crate) fn target() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// True for a target that is safe as a file's name.
pub(crate) fn is_target(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    (1..=40).contains(&text.len()) && text.bytes().all(allowed)
}

/// Program as the holder of the key named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub version: Version,
    /// Processor and system for which it was built.
    pub target: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tailback {} {}", self.version, self.target)
    }
}

impl FromStr for Label {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Label> {
        let words: Vec<&str> = text.split(' ').collect();
        let (["tailback", version, target], true) = (&words[..], text.len() < 100) else {
            bail!(
                "the signature names no version and processor; sign with `minisign -S -t 'tailback 1.2.0 {}'`",
                target()
            );
        };
        if !is_target(target) {
            bail!("the signature is for {target:?}, which is no processor and system");
        }
        Ok(Label {
            version: version.parse().map_err(anyhow::Error::msg)?,
            target: (*target).into(),
        })
    }
}

/// Public key that signs releases, as minisign prints it: 56 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReleaseKey(String);

impl FromStr for ReleaseKey {
    type Err = String;

    /// Reads a key, or the text of a `.pub` file: a comment, then the key.
    fn from_str(text: &str) -> Result<ReleaseKey, String> {
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        let key = last.unwrap_or_default();
        match PublicKey::from_base64(key) {
            Ok(_) => Ok(ReleaseKey(key.into())),
            Err(e) => Err(format!(
                "{:?} is no public key of minisign ({e}): give the 56 characters or the .pub file",
                key.chars().take(80).collect::<String>()
            )),
        }
    }
}

impl TryFrom<String> for ReleaseKey {
    type Error = String;
    fn try_from(text: String) -> Result<ReleaseKey, String> {
        text.parse()
    }
}

impl From<ReleaseKey> for String {
    fn from(key: ReleaseKey) -> String {
        key.0
    }
}

impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ReleaseKey {
    /// Checks the signature of a program, and returns what it was signed as.
    ///
    /// # Errors
    /// The file cannot be read; the signature is none, is another key's or another file's, or names no version.
    pub fn verified(&self, program: &Path, signature: &str) -> anyhow::Result<Label> {
        let key = PublicKey::from_base64(&self.0)?;
        if signature.len() > LONGEST_SIGNATURE {
            bail!("a signature has at most {LONGEST_SIGNATURE} bytes");
        }
        let signature = Signature::decode(signature).context("no signature of minisign")?;
        let mut verifier = key
            .verify_stream(&signature)
            .context("the signature is not one of the release key")?;
        let mut file = store::disk::open_read(program)
            .with_context(|| format!("cannot read {}", program.display()))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let n = file.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            verifier.update(&buffer[..n]);
        }
        verifier
            .finalize()
            .with_context(|| format!("the signature is not that of {}", program.display()))?;
        signature.trusted_comment().parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_back_in_order_and_each_has_one_text() {
        let order = [
            "0.0.0",
            "0.1.0",
            "0.1.10",
            "0.2.0",
            "1.0.0",
            "10.0.4294967295",
        ];
        let read: Vec<Version> = order.iter().map(|t| t.parse().unwrap()).collect();
        assert!(read.is_sorted_by(|a, b| a < b), "{read:?}");
        for (text, version) in order.iter().zip(read) {
            assert_eq!(version.to_string(), *text);
        }
        for wrong in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "1.2.x",
            "01.2.3",
            "+1.2.3",
            "1.2.-3",
            "1.2.3-rc",
            "../1.2.3",
            "1.2.4294967296",
        ] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_label_is_three_words() {
        let label: Label = "tailback 1.2.0 x86_64-linux".parse().unwrap();
        assert_eq!(label.to_string(), "tailback 1.2.0 x86_64-linux");
        for wrong in [
            "",
            "tailback",
            "tailback 1.2.0",
            "tailback 1.2.0 x86_64-linux more",
            "other 1.2.0 x86_64-linux",
            "tailback 1.2.0 ../x",
            "tailback  1.2.0 x",
        ] {
            assert!(wrong.parse::<Label>().is_err(), "{wrong:?}");
        }
    }
}
