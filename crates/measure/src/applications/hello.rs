//! Server name in a TLS ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3).

/// Longest ClientHello that is read, bytes.
pub const MOST: usize = 8192;

/// Result of reading the beginning of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// More bytes are needed.
    Cut,
    /// Name of the server, in lower case.
    Name(String),
    /// No ClientHello, or one without a server name.
    Without,
}

/// Reads a handshake inside TLS records, as TCP carries it.
pub fn in_records(mut bytes: &[u8]) -> Hello {
    let mut handshake = Vec::new();
    while let [kind, 3, _, high, low, rest @ ..] = bytes {
        if *kind != 22 {
            break;
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let there = rest.len().min(length);
        handshake.extend(&rest[..there]);
        bytes = &rest[there..];
    }
    // A record that is not of a handshake ends it, and so do bytes that are none.
    let is_over = bytes.len() >= 5 || !b"\x16\x03".starts_with(&bytes[..bytes.len().min(2)]);
    match bare(&handshake) {
        Hello::Cut if is_over && !bytes.is_empty() => Hello::Without,
        read => read,
    }
}

/// Reads a handshake without records, as QUIC carries it.
pub fn bare(bytes: &[u8]) -> Hello {
    let [kind, length @ ..] = bytes else {
        return Hello::Cut;
    };
    if *kind != 1 {
        return Hello::Without;
    }
    let [a, b, c, rest @ ..] = length else {
        return Hello::Cut;
    };
    let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
    if length > MOST {
        return Hello::Without;
    }
    match rest.get(..length) {
        None => Hello::Cut,
        Some(body) => name(body).map_or(Hello::Without, Hello::Name),
    }
}

/// Server name among the extensions.
fn name(body: &[u8]) -> Option<String> {
    // Version and random number, then session, cipher suites and compression, each behind its length.
    let rest = body.get(34..)?;
    let rest = behind(rest, 1)?.1;
    let rest = behind(rest, 2)?.1;
    let rest = behind(rest, 1)?.1;
    let (mut extensions, _) = behind(rest, 2)?;
    while let [high, low, rest @ ..] = extensions {
        let (content, next) = behind(rest, 2)?;
        if [*high, *low] == [0, 0] {
            let (list, _) = behind(content, 2)?;
            let [0, entry @ ..] = list else { return None };
            return host(behind(entry, 2)?.0);
        }
        extensions = next;
    }
    None
}

/// Splits what stands behind a length of so many bytes from the rest.
fn behind(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length.iter().fold(0, |sum, b| sum << 8 | usize::from(*b));
    rest.split_at_checked(length)
}

/// Name of a host: letters, digits, hyphens, underscores and dots, in lower case.
pub(super) fn host(bytes: &[u8]) -> Option<String> {
    let is_fit = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    let fits = (1..=253).contains(&bytes.len()) && bytes.iter().all(is_fit);
    let text = std::str::from_utf8(bytes).ok().filter(|_| fits)?;
    Some(text.to_ascii_lowercase())
}
