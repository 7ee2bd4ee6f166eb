//! Addresses in the answers of DNS servers (RFC 1035 section 4), under the name that was asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Records of a message that are read.
const MOST_RECORDS: u16 = 64;

/// Name that was asked for, and the addresses in the answer. `None` if the bytes are no such answer.
pub fn read(bytes: &[u8]) -> Option<(String, Vec<IpAddr>)> {
    let header = bytes.first_chunk::<12>()?;
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    // An answer to one question, without an error.
    let is_answer = header[2] & 0xf8 == 0x80 && header[3] & 15 == 0;
    if !is_answer || count(4) != 1 {
        return None;
    }
    let mut rest = &bytes[12..];
    let name = name(&mut rest)?;
    rest = rest.get(4..)?;
    let mut addresses = Vec::new();
    for _ in 0..count(6).min(MOST_RECORDS) {
        // What was read before a fault or the end of the capture stays.
        let Some(address) = record(&mut rest) else {
            break;
        };
        addresses.extend(address);
    }
    Some((name, addresses))
}

/// Name of the question, which is not compressed.
fn name(bytes: &mut &[u8]) -> Option<String> {
    let mut name: Vec<u8> = Vec::new();
    loop {
        let (length, rest) = bytes.split_first()?;
        if *length == 0 {
            *bytes = rest;
            return super::hello::host(&name);
        }
        if *length > 63 || name.len() > 253 {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(*length))?;
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend(label);
        *bytes = rest;
    }
}

/// Address of the next record; `Some(None)` if it has none.
fn record(bytes: &mut &[u8]) -> Option<Option<IpAddr>> {
    loop {
        let (length, rest) = bytes.split_first()?;
        match length {
            0 => {
                *bytes = rest;
                break;
            }
            // A pointer ends the name.
            0xc0.. => {
                *bytes = rest.get(1..)?;
                break;
            }
            1..=63 => *bytes = rest.get(usize::from(*length)..)?,
            _ => return None,
        }
    }
    let (head, rest) = bytes.split_first_chunk::<10>()?;
    let length = usize::from(u16::from_be_bytes([head[8], head[9]]));
    let (data, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    let kind = u16::from_be_bytes([head[0], head[1]]);
    Some(match kind {
        1 => <[u8; 4]>::try_from(data)
            .ok()
            .map(|a| Ipv4Addr::from(a).into()),
        28 => <[u8; 16]>::try_from(data)
            .ok()
            .map(|a| Ipv6Addr::from(a).into()),
        _ => None,
    })
}
