//! Ed25519 keys (RFC 8032) of points and of the hub.

use crate::durable;
use anyhow::{Context, anyhow};
use measure::keys::{from_hex, hex};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

macro_rules! hexadecimal {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub [u8; $bytes]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<$name, String> {
                from_hex(&text).map($name).ok_or_else(|| {
                    format!("{} has {} hexadecimal digits", $what, 2 * $bytes)
                })
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    };
}

hexadecimal!(
    /// Public key of a point or of the hub.
    PublicKey, 32, "a public key"
);
hexadecimal!(
    /// Signature over a message.
    Signature, 64, "a signature"
);

impl PublicKey {
    /// True if the holder of the private key has signed this message.
    pub fn has_signed(&self, message: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(message, &signature.0)
            .is_ok()
    }
}

/// Writes a file that its owner alone can read.
fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("new");
    match std::fs::remove_file(&part) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&part, path)?;
    durable::sync_directory(store::disk::parent(path))
}

/// Private key that never leaves its machine.
pub struct Identity(Ed25519KeyPair);

impl Identity {
    /// Reads the key from a file, or makes it there.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds no key.
    pub fn kept_in(path: &Path) -> anyhow::Result<Identity> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                    .map_err(|_| anyhow!("the system gives no random bytes for a key"))?;
                write_secret(path, made.as_ref())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                made.as_ref().to_vec()
            }
            Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
        };
        let pair = Ed25519KeyPair::from_pkcs8(&bytes)
            .map_err(|e| anyhow!("{} is no Ed25519 key: {e}", path.display()))?;
        Ok(Identity(pair))
    }

    /// Makes a key from its secret half, which [`Identity::new_secret`] gives.
    ///
    /// # Errors
    /// None for 32 bytes; the library's otherwise.
    pub(crate) fn from_secret(secret: &[u8; 32]) -> anyhow::Result<Identity> {
        let pair = Ed25519KeyPair::from_seed_unchecked(secret);
        Ok(Identity(pair.map_err(|e| anyhow!("no Ed25519 key: {e}"))?))
    }

    /// Random secret half of a new key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new_secret() -> anyhow::Result<[u8; 32]> {
        let mut secret = [0; 32];
        let filled = ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut secret);
        filled.map_err(|_| anyhow!("the system gives no random bytes for a key"))?;
        Ok(secret)
    }

    /// Public half of the key.
    ///
    /// # Panics
    /// Never: a public key of Ed25519 has 32 bytes.
    pub fn public(&self) -> PublicKey {
        let bytes = self.0.public_key().as_ref();
        PublicKey(bytes.try_into().expect("Ed25519 keys have 32 bytes"))
    }

    /// Signs a message.
    ///
    /// # Panics
    /// Never: a signature of Ed25519 has 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Signature {
        let signature = self.0.sign(message);
        Signature(signature.as_ref().try_into().expect("64 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_message_and_key_alone() {
        let dir = testkit::TempDir::new("identity");
        let identity = Identity::kept_in(Path::new(&dir.at("a.key"))).unwrap();
        let other = Identity::kept_in(Path::new(&dir.at("b.key"))).unwrap();
        let again = Identity::kept_in(Path::new(&dir.at("a.key"))).unwrap();
        let signature = identity.sign(b"a message");
        assert!(again.public().has_signed(b"a message", &signature));
        assert!(!again.public().has_signed(b"another message", &signature));
        assert!(!other.public().has_signed(b"a message", &signature));
    }

    #[test]
    fn text_of_a_key_is_read_back_and_other_text_is_refused() {
        let key = PublicKey([0xa7; 32]);
        assert_eq!(PublicKey::try_from(key.to_string()), Ok(key));
        for wrong in [
            "",
            "a7",
            &"g7".repeat(32),
            &"a7".repeat(33),
            &"ä".repeat(32),
        ] {
            assert!(PublicKey::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
