//! Handshake in the Initial packets of a QUIC client, which are encrypted with keys that everybody can compute.
//!
//! **Source.** RFC 9000 sections 12, 16, 17.2 and 19 (packets and frames), RFC 9001 section 5 (keys and header
//! protection), RFC 9369 section 3 (version 2).
//!
//! **Validated against** the packet of RFC 9001 appendix A.2, and one that `reference/quic_initial.py` made.

use aes_gcm::aead::AeadInOut;
use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::BlockCipherEncrypt;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;

/// Frames of a handshake that are kept, and the bytes of all of them.
const MOST_PIECES: usize = 128;
const MOST_BYTES: usize = super::hello::MOST;

/// Version of QUIC with its constants.
struct Version {
    number: u32,
    salt: [u8; 20],
    /// Beginning of its labels.
    label: &'static str,
    /// Bits of the packet type of an Initial.
    initial: u8,
}

const VERSIONS: [Version; 2] = [
    Version {
        number: 1,
        salt: [
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
            0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
        ],
        label: "quic",
        initial: 0,
    },
    Version {
        number: 0x6b33_43cf,
        salt: [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
            0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
        ],
        label: "quicv2",
        initial: 1,
    },
];

/// Keys of a client's Initial packets.
struct Keys {
    key: [u8; 16],
    iv: [u8; 12],
    protection: [u8; 16],
}

/// Client's side of a handshake: what its Initial packets have carried so far.
#[derive(Clone, Debug, Default)]
pub struct Initials {
    /// First destination of the client, from which the keys follow.
    destination: Option<Vec<u8>>,
    pieces: Vec<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Initials {
    /// Takes the Initial packets of a datagram from the client. Returns false if it holds none that can be read.
    pub fn datagram(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        let mut any = false;
        while let Some((packet, next)) = Packet::split(rest) {
            if let Some(packet) = packet {
                any |= self.packet(&packet).is_some();
            }
            rest = next;
        }
        any
    }

    fn packet(&mut self, packet: &Packet<'_>) -> Option<()> {
        let first = self.destination.clone();
        let destination = first.as_deref().unwrap_or(packet.destination);
        let plain = packet.open(&packet.version.keys(destination)?)?;
        self.destination
            .get_or_insert_with(|| packet.destination.to_vec());
        self.frames(&plain);
        Some(())
    }

    /// Keeps the CRYPTO frames of an opened packet.
    fn frames(&mut self, mut bytes: &[u8]) -> Option<()> {
        while let [kind, rest @ ..] = bytes {
            bytes = rest;
            match kind {
                // PADDING, PING
                0 | 1 => {}
                // ACK, with or without counts of ECN
                2 | 3 => {
                    let (_largest, _delay) = (integer(&mut bytes)?, integer(&mut bytes)?);
                    let ranges = integer(&mut bytes)?;
                    let more = if *kind == 3 { 3 } else { 0 };
                    for _ in 0..ranges.checked_mul(2)?.checked_add(1 + more)? {
                        integer(&mut bytes)?;
                    }
                }
                // CRYPTO
                6 => {
                    let offset = integer(&mut bytes)?;
                    let length = usize::try_from(integer(&mut bytes)?).ok()?;
                    let (data, rest) = bytes.split_at_checked(length)?;
                    bytes = rest;
                    if self.pieces.len() < MOST_PIECES && self.bytes + length <= MOST_BYTES {
                        self.bytes += length;
                        self.pieces.push((offset, data.to_vec()));
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Bytes of the handshake from its begin up to the first gap.
    pub fn handshake(&self) -> Vec<u8> {
        let mut pieces: Vec<&(u64, Vec<u8>)> = self.pieces.iter().collect();
        pieces.sort_unstable_by_key(|p| p.0);
        let mut whole: Vec<u8> = Vec::new();
        for (offset, data) in pieces {
            let Ok(offset) = usize::try_from(*offset) else {
                break;
            };
            match whole.len().checked_sub(offset) {
                None => break,
                Some(known) => whole.extend(data.iter().skip(known)),
            }
        }
        whole
    }
}

/// Initial packet before its protection is removed.
struct Packet<'a> {
    version: &'static Version,
    destination: &'a [u8],
    /// The whole packet, and the place of its number.
    bytes: &'a [u8],
    number_at: usize,
}

impl Packet<'_> {
    /// Splits the first packet off a datagram; `None` if the rest holds no long header. Packets of other types are passed over.
    fn split(bytes: &[u8]) -> Option<(Option<Packet<'_>>, &[u8])> {
        let [first, a, b, c, d, rest @ ..] = bytes else {
            return None;
        };
        if first & 0xc0 != 0xc0 {
            return None;
        }
        let number = u32::from_be_bytes([*a, *b, *c, *d]);
        let version = VERSIONS.iter().find(|v| v.number == number)?;
        let kind = first >> 4 & 3;
        let mut left = rest;
        let destination = connection_id(&mut left)?;
        connection_id(&mut left)?;
        if kind == version.initial {
            let token = usize::try_from(integer(&mut left)?).ok()?;
            left = left.get(token..)?;
        } else if kind == (version.initial + 3) % 4 {
            // Retry: it has no length and fills the datagram.
            return None;
        }
        let length = usize::try_from(integer(&mut left)?).ok()?;
        let number_at = bytes.len() - left.len();
        let end = number_at.checked_add(length)?;
        let (whole, next) = bytes.split_at_checked(end)?;
        let packet = (kind == version.initial).then_some(Packet {
            version,
            destination,
            bytes: whole,
            number_at,
        });
        Some((packet, next))
    }

    /// Removes the protection and decrypts the frames; `None` if the packet is not authentic under these keys.
    fn open(&self, keys: &Keys) -> Option<Vec<u8>> {
        let sample = self.bytes.get(self.number_at + 4..self.number_at + 20)?;
        let mut mask: [u8; 16] = sample.try_into().ok()?;
        let cipher = Aes128::new_from_slice(&keys.protection).ok()?;
        cipher.encrypt_block((&mut mask).into());
        let first = self.bytes[0] ^ mask[0] & 0x0f;
        let width = usize::from(first & 3) + 1;
        let mut header = self.bytes.get(..self.number_at + width)?.to_vec();
        header[0] = first;
        let mut nonce = keys.iv;
        for (i, byte) in header[self.number_at..].iter_mut().enumerate() {
            *byte ^= mask[1 + i];
            nonce[12 - width + i] ^= *byte;
        }
        let (text, tag) = self.bytes[header.len()..].split_last_chunk::<16>()?;
        let mut text = text.to_vec();
        let cipher = Aes128Gcm::new_from_slice(&keys.key).ok()?;
        let (nonce, tag) = (Nonce::from(nonce), Tag::from(*tag));
        let opened =
            cipher.decrypt_inout_detached(&nonce, &header, text.as_mut_slice().into(), &tag);
        opened.ok().map(|()| text)
    }
}

impl Version {
    /// Keys of a client that first wrote to this connection (RFC 9001 sections 5.1 and 5.2).
    fn keys(&self, destination: &[u8]) -> Option<Keys> {
        let (_, initial) = Hkdf::<Sha256>::extract(Some(&self.salt), destination);
        let mut secret = [0; 32];
        expand(&initial, "client in", &mut secret)?;
        let secret = Hkdf::<Sha256>::from_prk(&secret).ok()?;
        let mut keys = Keys {
            key: [0; 16],
            iv: [0; 12],
            protection: [0; 16],
        };
        expand(&secret, &format!("{} key", self.label), &mut keys.key)?;
        expand(&secret, &format!("{} iv", self.label), &mut keys.iv)?;
        expand(&secret, &format!("{} hp", self.label), &mut keys.protection)?;
        Some(keys)
    }
}

/// HKDF-Expand-Label without a context (RFC 8446 section 7.1).
fn expand(secret: &Hkdf<Sha256>, label: &str, out: &mut [u8]) -> Option<()> {
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label = format!("tls13 {label}");
    let width = [u8::try_from(label.len()).ok()?];
    let info = [&length[..], &width, label.as_bytes(), &[0]];
    secret.expand_multi_info(&info, out).ok()
}

/// Integer of one to eight bytes (RFC 9000 section 16).
fn integer(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let value = number.iter().fold(0, |sum, b| sum << 8 | u64::from(*b));
    // The two highest bits are the length.
    Some(value & (u64::MAX >> (64 - 8 * number.len() + 2)))
}

/// Connection identifier behind its length.
fn connection_id<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first()?;
    if *length > 20 {
        return None;
    }
    let (id, rest) = rest.split_at_checked(usize::from(*length))?;
    *bytes = rest;
    Some(id)
}
