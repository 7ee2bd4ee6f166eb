//! Keys of users: random ones, stretched passphrases, and the keys of a session derived from them.
//!
//! **Source.** RFC 5869 (HMAC-based Extract-and-Expand Key Derivation Function), RFC 9106 (Argon2 Memory-Hard Function
//! for Password Hashing and Proof-of-Work Applications). **Deviations.** Argon2id runs with 19 MiB, 2 passes and 1 lane,
//! below RFC 9106's first choices: a router has 64 MB. **Units.** Keys are 32 bytes. Expiry is UNIX time, s.
//!
//! A session's keys depend on the user's key and on random numbers of both ends, and differ by direction. So a message
//! is useless in another session, or in the other direction of the same one.

mod file;
mod reload;
mod users;

pub use file::{KeyFile, KeyFileError, Line, random_line, stretched_line};
pub use reload::{GRACE, News, Reload};
pub use users::{Identity, Users};

use crate::wire::Key;
use argon2::{Algorithm, Argon2, Params, Version};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Length of a key, bytes.
pub const KEY_LEN: usize = 32;
/// Length of a salt, bytes.
pub const SALT_LEN: usize = 16;
/// Length of a user's identifier on the wire, bytes.
pub const ID_LEN: usize = 16;
/// Memory that stretching a passphrase takes, KiB, and its passes.
const STRETCH_KIB: u32 = 19 * 1024;
const STRETCH_PASSES: u32 = 2;
/// Length of the shortest passphrase, bytes.
pub const SHORTEST_PASSPHRASE: usize = 12;

/// Salt of a server's passphrases: sent to every client, and the same for all its users.
pub type Salt = [u8; SALT_LEN];
/// Hash of a user's name, which keeps the name itself off the wire.
pub type UserId = [u8; ID_LEN];

/// Wire identifier of a user at the server with this salt.
pub fn user_id(salt: &Salt, name: &str) -> UserId {
    let hash = Sha256::new()
        .chain_update(b"tailback user")
        .chain_update(salt)
        .chain_update(name.as_bytes())
        .finalize();
    std::array::from_fn(|i| hash[i])
}

/// Stretches a passphrase: 19 MiB of memory and some tens of milliseconds.
pub fn stretch(salt: &Salt, name: &str, passphrase: &str) -> UserKey {
    let params = Params::new(STRETCH_KIB, STRETCH_PASSES, 1, Some(KEY_LEN));
    let argon = Argon2::new(
        Algorithm::Argon2id,
        Version::V0x13,
        params.expect("constant parameters within Argon2's bounds"),
    );
    // Fixed length for any name.
    let salt = user_id(salt, name);
    let mut key = [0; KEY_LEN];
    argon
        .hash_password_into(passphrase.as_bytes(), &salt, &mut key)
        .expect("a passphrase below 4 GB, and a salt of 16 bytes");
    UserKey(key)
}

/// A key as both ends use it: random, or stretched from a passphrase.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UserKey(pub [u8; KEY_LEN]);

impl fmt::Debug for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserKey(…)")
    }
}

/// Keys of one session, one for each direction.
#[derive(Clone, Debug)]
pub struct SessionKeys {
    /// Signs what the client sends.
    pub up: Key,
    /// Signs what the server sends.
    pub down: Key,
}

impl UserKey {
    fn derive(&self, context: &[u8], info: &[u8]) -> Key {
        Key::new(&expand(context, &self.0, info))
    }

    /// Key that signs a client's request to open a probing session.
    pub fn opening(&self) -> Key {
        self.derive(b"tailback 3", b"probe open")
    }

    /// Keys of a session. `context` holds the random numbers of both ends; `protocol` tells protocols apart.
    pub fn session(&self, protocol: &str, context: &[u8]) -> SessionKeys {
        let of =
            |direction: &str| self.derive(context, format!("{protocol} {direction}").as_bytes());
        SessionKeys {
            up: of("up"),
            down: of("down"),
        }
    }

    /// Fingerprint that distinguishes one user's keys without revealing them.
    pub fn fingerprint(&self) -> [u8; 4] {
        let hash = Sha256::new()
            .chain_update(b"tailback fingerprint")
            .chain_update(self.0)
            .finalize();
        std::array::from_fn(|i| hash[i])
    }
}

/// A key for a client that knows the server by its pin and is no user: sent inside TLS, to sign its probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Random identifier of the key on the wire.
    pub id: UserId,
    /// Key of the ticket.
    pub key: UserKey,
}

/// Source of tickets. Keys are derived from one secret and the ticket's number, so the server remembers none of them.
#[derive(Clone, Debug)]
pub struct Tickets(UserKey);

impl Tickets {
    /// Tickets of the server with this secret, such as its private TLS key.
    pub fn new(secret: &[u8]) -> Tickets {
        Tickets(UserKey(expand(b"tailback 3 tickets", secret, b"")))
    }

    /// Key of the ticket with this number.
    pub fn key(&self, id: &UserId) -> UserKey {
        UserKey(expand(
            b"tailback 3",
            &self.0.0,
            &[b"ticket", &id[..]].concat(),
        ))
    }

    /// Ticket of a random number.
    pub fn ticket(&self, id: UserId) -> Ticket {
        let key = self.key(&id);
        Ticket { id, key }
    }
}

/// HKDF of RFC 5869.
fn expand(salt: &[u8], secret: &[u8], info: &[u8]) -> [u8; KEY_LEN] {
    let mut okm = [0; KEY_LEN];
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(info, &mut okm)
        .expect("32 bytes are within HKDF's bound");
    okm
}

/// A secret as written in a file of keys.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Key used as it is: random, or stretched already.
    Key(UserKey),
    Passphrase(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Key(_) => "Key(…)",
            Secret::Passphrase(_) => "Passphrase(…)",
        })
    }
}

type Stretched = Arc<Mutex<Option<(Salt, UserKey)>>>;

/// Client's name and secret. Clones share the stretched key, so a passphrase is stretched once for each server.
#[derive(Clone, Debug)]
pub struct Credential {
    name: Arc<str>,
    secret: Secret,
    stretched: Stretched,
    ticket: Option<UserId>,
}

impl Credential {
    /// Creates a credential.
    pub fn new(name: &str, secret: Secret) -> Credential {
        Credential {
            name: name.into(),
            secret,
            stretched: Arc::default(),
            ticket: None,
        }
    }

    /// Credential of a client that is no user.
    pub fn of_ticket(ticket: Ticket) -> Credential {
        Credential {
            ticket: Some(ticket.id),
            ..Credential::new("", Secret::Key(ticket.key))
        }
    }

    /// True if it proves the server's identity only, and not the client's.
    pub fn is_ticket(&self) -> bool {
        self.ticket.is_some()
    }

    /// Name of the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Identifier of the user under this salt.
    pub fn id(&self, salt: &Salt) -> UserId {
        self.ticket.unwrap_or_else(|| user_id(salt, &self.name))
    }

    /// Key to use with the server of this salt.
    pub fn key(&self, salt: &Salt) -> UserKey {
        let passphrase = match &self.secret {
            Secret::Key(key) => return *key,
            Secret::Passphrase(passphrase) => passphrase,
        };
        let mut known = self
            .stretched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some((of, key)) if of == *salt => key,
            _ => {
                let key = stretch(salt, &self.name, passphrase);
                *known = Some((*salt, key));
                key
            }
        }
    }
}

/// SHA-256 of a server's public key (its SubjectPublicKeyInfo), written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin(pub [u8; 32]);

impl Pin {
    /// Pin of a public key, given as DER.
    pub fn of(public_key: &[u8]) -> Pin {
        Pin(Sha256::digest(public_key).into())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Pin, String> {
        text.strip_prefix("sha256:")
            .and_then(from_hex)
            .map(Pin)
            .ok_or_else(|| {
                "a pin is \"sha256:\" and 64 hexadecimal digits, as `tailback serve` prints it"
                    .into()
            })
    }
}

/// Bytes as lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes of hexadecimal text; `None` unless it has exactly as many digits as `N` bytes need.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5869 appendix A.1, test case 1, and A.3, test case 3 (no salt, no info).
    #[test]
    fn hkdf_is_the_one_of_rfc_5869() {
        let cases: [(&[u8], &[u8], &str); 2] = [
            (
                &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
                &[0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9],
                "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
            ),
            (
                &[],
                &[],
                "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
            ),
        ];
        for (salt, info, expected) in cases {
            let mut okm = [0; 42];
            Hkdf::<Sha256>::new(Some(salt), &[0x0b; 22])
                .expand(info, &mut okm)
                .expect("short enough");
            assert_eq!(hex(&okm), expected);
        }
    }

    #[test]
    fn keys_differ_by_direction_session_and_protocol() {
        let user = UserKey([7; 32]);
        let tag = |key: &Key| key.tag(&[b"x"]);
        let a = user.session("probe", b"one");
        let mut all = vec![tag(&a.up), tag(&a.down), tag(&user.opening())];
        for other in [
            user.session("probe", b"two"),
            user.session("control", b"one"),
            UserKey([8; 32]).session("probe", b"one"),
        ] {
            all.extend([tag(&other.up), tag(&other.down)]);
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_passphrase_is_stretched_once_for_each_salt_and_depends_on_the_name() {
        let passphrase = || Secret::Passphrase("correct horse battery".into());
        let anna = Credential::new("anna", passphrase());
        let key = anna.key(&[1; 16]);
        assert_eq!(
            *anna.clone().stretched.lock().expect("whole"),
            Some(([1; 16], key)),
            "a clone has it as well"
        );
        assert_eq!(stretch(&[1; 16], "anna", "correct horse battery"), key);
        assert_ne!(Credential::new("bert", passphrase()).key(&[1; 16]), key);
        assert_ne!(anna.key(&[2; 16]), key);
        let random = Credential::new("anna", Secret::Key(UserKey([9; 32])));
        assert_eq!(random.key(&[1; 16]), UserKey([9; 32]));
        assert!(!format!("{anna:?} {random:?} {:?}", UserKey([9; 32])).contains('9'));
    }

    #[test]
    fn pins_read_as_they_are_written() {
        let pin = Pin::of(b"key");
        assert_eq!(pin.to_string().parse(), Ok(pin));
        for wrong in ["", "sha256:", "sha256:12", "md5:00", &pin.to_string()[..70]] {
            assert!(wrong.parse::<Pin>().is_err(), "{wrong}");
        }
    }
}
