//! Reads pcap and pcapng from any byte stream: a file, a pipe, a decompressor.
//!
//! A record is a slice of the single buffer; nothing is copied. After damaged input the reader continues at the next
//! plausible record and reports the number of bytes between.
//!
//! **Source.** draft-ietf-opsawg-pcap (the classic format, its four magic numbers and the variant with
//! extra fields in each record), draft-ietf-opsawg-pcapng.
//! **Units.** Times in nanoseconds since 1970, lengths in bytes.

use super::LinkType;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Capture time, UNIX ns; `None` in a pcapng Simple Packet Block, which has no time.
    pub t_ns: Option<i64>,
    /// Link layer of the packet.
    pub link: LinkType,
    /// Number of the interface within its section of a pcapng file; 0 in the classic format.
    pub interface: u32,
    /// Length on the wire, bytes; `data` may hold less.
    pub original_len: u32,
    /// Captured bytes.
    pub data: &'a [u8],
}

/// A part of the input that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in bytes from the start of the (decompressed) input.
    pub offset: u64,
    /// Bytes skipped.
    pub skipped: u64,
    /// Fault in words.
    pub why: String,
}

/// Reason why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(
        "this is not a capture: it begins with {found}. A pcap or pcapng file is needed (gzip and zstd are unpacked)"
    )]
    NotACapture { found: String },
    #[error("reading failed after {offset} bytes: {source}")]
    Io { offset: u64, source: io::Error },
}

/// Bytes read at once: as many as fit a core's own cache beside the connections. Mapping the file costs more.
const READ: usize = 256 << 10;
/// Largest record; a greater length is damage.
const MOST: usize = 16 << 20;
/// Maximum time difference, s, between a record after damage and the record before it: one day.
const NEAR_S: u32 = 86_400;
/// Nanoseconds of a second.
const TICKS: u32 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Classic {
    swapped: bool,
    /// Length of a record's header: 16 bytes, or 24 in the variant of A. Kuznetzov.
    header: usize,
    /// Unit of the fractions of a second, ns.
    tick_ns: u32,
    link: LinkType,
    most: usize,
    last_s: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snaplen: u32,
    /// Time units per second, as a power of 10 or of 2.
    resolution: Resolution,
    offset_s: i64,
}

#[derive(Clone, Copy, Debug)]
enum Resolution {
    Ten(u32),
    Two(u32),
}

#[derive(Clone, Debug, Default)]
struct Blocks {
    swapped: bool,
    interfaces: Vec<Interface>,
}

enum Format {
    Classic(Classic),
    Blocks(Blocks),
}

/// Place of a record's packet in the buffer, before it is lent out.
struct Found {
    t_ns: Option<i64>,
    link: LinkType,
    interface: u32,
    original_len: u32,
    /// Offset from the start of the record or block, and that record's length.
    from: usize,
    len: usize,
    total: usize,
}

enum Step {
    /// A packet in the current block.
    Packet(Found),
    /// A record is ready.
    Ready,
    /// No packet to return; the input has advanced.
    Other,
    End,
    Bad(String),
}

/// Reader of a capture: pcap or pcapng.
pub struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the input of `buffer[start]`.
    offset: u64,
    ended: bool,
    format: Format,
    /// Current packet, if finding it took more than one step.
    found: Option<Found>,
    damage: Vec<Damage>,
    /// Packets dropped according to the capturing system, by section, interface and kind, because each interface
    /// repeats its total.
    dropped: BTreeMap<(u32, u32, u16), u64>,
    section: u32,
    /// Packets of a pcapng file so far, and its comments.
    packets: u64,
    comments: Vec<Comment>,
}

/// A comment in a pcapng file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Number of the packet that it belongs to, from 1; `None` for a comment on the whole file or an interface.
    pub packet: Option<u64>,
    /// Text of the comment.
    pub text: String,
}

/// Maximum number of comments kept.
const COMMENTS: usize = 10_000;

impl<R: Read> Reader<R> {
    /// # Errors
    /// The input does not start as a capture, or cannot be read.
    pub fn new(input: R) -> Result<Reader<R>, CaptureError> {
        let mut reader = Reader {
            input,
            buffer: vec![0; READ + (64 << 10)],
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            format: Format::Blocks(Blocks::default()),
            found: None,
            damage: Vec::new(),
            dropped: BTreeMap::new(),
            section: 0,
            packets: 0,
            comments: Vec::new(),
        };
        let whole = reader.need(24)?;
        let head = &reader.buffer[reader.start..reader.end];
        let foreign = || CaptureError::NotACapture {
            found: match head.get(..4.min(head.len())) {
                Some([]) | None => "nothing: it is empty".to_string(),
                Some(bytes) => {
                    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
                    format!("the bytes {}", hex.join(" "))
                }
            },
        };
        let magic = match head.first_chunk::<4>() {
            Some(m) => u32::from_le_bytes(*m),
            None => return Err(foreign()),
        };
        if magic == SECTION {
            return Ok(reader);
        }
        let (swapped, nanos, header) = match magic {
            0xa1b2_c3d4 => (false, false, 16),
            0xa1b2_3c4d => (false, true, 16),
            0xa1b2_cd34 => (false, false, 24),
            0xd4c3_b2a1 => (true, false, 16),
            0x4d3c_b2a1 => (true, true, 16),
            0x34cd_b2a1 => (true, false, 24),
            _ => return Err(foreign()),
        };
        if !whole {
            return Err(CaptureError::NotACapture {
                found: format!("a pcap header cut after {} bytes", head.len()),
            });
        }
        let snaplen = word(swapped, head, 16) as usize;
        // The upper bits of the last word concern frame check sequences.
        let link = LinkType(word(swapped, head, 20) as u16);
        reader.format = Format::Classic(Classic {
            swapped,
            tick_ns: if nanos { 1 } else { 1000 },
            header,
            link,
            most: snaplen.clamp(256 << 10, MOST),
            last_s: None,
        });
        reader.consume(24);
        Ok(reader)
    }

    /// Next packet; `None` at the end of the input.
    ///
    /// # Errors
    /// The input cannot be read. Damaged input is no error: see [`Reader::damage`].
    #[inline(always)]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        // A record is built in one place only: from two, it would have to pass through memory.
        loop {
            let found = match &mut self.format {
                Format::Classic(c) if !c.swapped => c.whole(&self.buffer[self.start..self.end]),
                _ => self.found.take(),
            };
            if let Some(f) = found {
                let from = self.start + f.from;
                self.start += f.total;
                self.offset += f.total as u64;
                return Ok(Some(Record {
                    t_ns: f.t_ns,
                    link: f.link,
                    interface: f.interface,
                    original_len: f.original_len,
                    data: &self.buffer[from..from + f.len],
                }));
            }
            if !self.prepare()? {
                return Ok(None);
            }
        }
    }

    /// Calls `take` for each remaining packet, as [`Reader::next_record`] would, and faster.
    ///
    /// # Errors
    /// Errors of [`Reader::next_record`].
    #[inline(always)]
    pub fn each(&mut self, mut take: impl FnMut(&Record<'_>)) -> Result<(), CaptureError> {
        let mut plain = match self.format {
            Format::Classic(c) if !c.swapped => Some(c),
            _ => None,
        };
        loop {
            // Parses the buffer without storing the position after each record.
            let mut rest = &self.buffer[self.start..self.end];
            let all = rest.len();
            loop {
                let found = match &mut plain {
                    Some(c) => c.whole(rest),
                    None => self.found.take(),
                };
                let Some(f) = found else { break };
                take(&Record {
                    t_ns: f.t_ns,
                    link: f.link,
                    interface: f.interface,
                    original_len: f.original_len,
                    data: &rest[f.from..f.from + f.len],
                });
                rest = &rest[f.total..];
            }
            let used = all - rest.len();
            self.start += used;
            self.offset += used as u64;
            if let Some(c) = plain {
                self.format = Format::Classic(c);
            }
            if !self.prepare()? {
                return Ok(());
            }
        }
    }

    /// Reads on until the next record is ready; `false` at the end of the input.
    #[inline(never)]
    fn prepare(&mut self) -> Result<bool, CaptureError> {
        loop {
            let step = match self.format {
                Format::Classic(_) => self.classic()?,
                Format::Blocks(_) => self.block()?,
            };
            match step {
                Step::Ready => return Ok(true),
                Step::Other | Step::Packet(_) => {}
                Step::End => return Ok(false),
                Step::Bad(why) => self.resume(why)?,
            }
        }
    }

    /// Parts of the input that could not be read so far.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Comments read so far: the first ten thousand.
    pub fn comments(&self) -> &[Comment] {
        &self.comments
    }

    /// Packets that the capturing system dropped for lack of room (pcapng's interface statistics).
    pub fn dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Bytes of input used so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }

    /// True if `n` bytes are in the buffer; reads more if necessary.
    #[inline]
    fn need(&mut self, n: usize) -> Result<bool, CaptureError> {
        if self.end - self.start >= n {
            return Ok(true);
        }
        self.fill(n)
    }

    #[cold]
    fn fill(&mut self, n: usize) -> Result<bool, CaptureError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < n + READ {
            self.buffer.resize(n + READ, 0);
        }
        while self.end < n && !self.ended {
            // A whole number of pages at once, so that the file's reads stay aligned.
            let until = (self.end + READ).min(self.buffer.len());
            match self.input.read(&mut self.buffer[self.end..until]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // A truncated gzip or zstd stream ends this way; the bytes before it are good.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    self.damage.push(Damage {
                        offset: self.offset + self.end as u64,
                        skipped: 0,
                        why: format!("the compressed file is cut off ({e})"),
                    });
                }
                Err(source) => {
                    return Err(CaptureError::Io {
                        offset: self.offset + self.end as u64,
                        source,
                    });
                }
            }
        }
        Ok(self.end >= n)
    }

    /// Ends the input; reports damage if an incomplete record is left.
    fn finish(&mut self, what: &str) -> Step {
        let left = self.end - self.start;
        if left > 0 {
            self.damage.push(Damage {
                offset: self.offset,
                skipped: left as u64,
                why: format!("the file ends within {what}"),
            });
            self.consume(left);
        }
        Step::End
    }

    #[inline]
    fn classic(&mut self) -> Result<Step, CaptureError> {
        let Format::Classic(mut c) = self.format else {
            unreachable!("only called for the classic format")
        };
        if !self.need(c.header)? {
            return Ok(self.finish("a record's header"));
        }
        let head = &self.buffer[self.start..];
        let (s, fraction) = (word(c.swapped, head, 0), word(c.swapped, head, 4));
        let len = word(c.swapped, head, 8) as usize;
        if len > c.most || fraction >= TICKS / c.tick_ns {
            return Ok(Step::Bad(format!(
                "a record that claims {len} bytes at {s}.{fraction}"
            )));
        }
        if !self.need(c.header + len)? {
            return Ok(if len <= MOST && self.end - self.start < c.header + len {
                Step::Bad(format!(
                    "a record of {len} bytes that the file does not hold"
                ))
            } else {
                Step::End
            });
        }
        if c.swapped {
            self.found = c.whole(&self.buffer[self.start..self.end]);
            self.format = Format::Classic(c);
        }
        Ok(Step::Ready)
    }

    /// Skips bytes until a plausible record.
    #[cold]
    fn resume(&mut self, why: String) -> Result<(), CaptureError> {
        let offset = self.offset;
        self.consume(1);
        loop {
            let (found, keep) = match &self.format {
                Format::Classic(c) => (c.resume_at(self.rest(), self.ended), 48),
                Format::Blocks(b) => (b.resume_at(self.rest()), 12),
            };
            match found {
                Seek::At(n) => {
                    self.consume(n);
                    break;
                }
                Seek::More(n) if !self.ended => {
                    self.need(n)?;
                }
                Seek::More(_) | Seek::None => {
                    let pass = self
                        .rest()
                        .len()
                        .saturating_sub(if self.ended { 0 } else { keep });
                    self.consume(pass);
                    if self.ended {
                        break;
                    }
                    self.need(READ.min(keep + READ / 2))?;
                }
            }
        }
        self.damage.push(Damage {
            offset,
            skipped: self.offset - offset,
            why,
        });
        Ok(())
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn block(&mut self) -> Result<Step, CaptureError> {
        if !self.need(12)? {
            return Ok(self.finish("a block"));
        }
        let head = &self.buffer[self.start..self.end];
        let Format::Blocks(b) = &mut self.format else {
            unreachable!("only called for pcapng")
        };
        let kind = word(b.swapped, head, 0);
        if kind == SECTION {
            // The section's magic determines the byte order of all that follows, its own length included.
            b.swapped = match word(false, head, 8) {
                0x1a2b_3c4d => false,
                0x4d3c_2b1a => true,
                other => {
                    return Ok(Step::Bad(format!(
                        "a section with byte-order magic {other:#x}"
                    )));
                }
            };
            b.interfaces.clear();
            self.section = self.section.wrapping_add(1);
        }
        let swapped = b.swapped;
        let total = word(swapped, head, 4) as usize;
        if !(12..=MOST).contains(&total) || !total.is_multiple_of(4) {
            return Ok(Step::Bad(format!("a block that claims {total} bytes")));
        }
        if !self.need(total)? {
            return Ok(Step::Bad(format!(
                "a block of {total} bytes that the file does not hold"
            )));
        }
        let block = &self.buffer[self.start..self.start + total];
        let again = word(swapped, block, total - 4) as usize;
        if again != total {
            return Ok(Step::Bad(format!(
                "a block that says {total} bytes at its begin and {again} at its end"
            )));
        }
        let body = &block[8..total - 4];
        let Format::Blocks(b) = &mut self.format else {
            unreachable!("it was pcapng a moment ago")
        };
        let step = match kind {
            INTERFACE => match Interface::read(swapped, body) {
                Some(i) => {
                    b.interfaces.push(i);
                    Step::Other
                }
                None => Step::Bad("an interface that says too little".into()),
            },
            PACKET | OLD_PACKET => b.packet(kind, body),
            SIMPLE => b.simple(body),
            STATISTICS => {
                // isb_ifdrop (5), isb_osdrop (7)
                for (code, value) in options(swapped, body.get(12..).unwrap_or(&[])) {
                    if matches!(code, 5 | 7) && value.len() == 8 {
                        let interface = body.get(..4).map_or(0, |i| word(swapped, i, 0));
                        let key = (self.section, interface, code);
                        self.dropped.insert(key, long(swapped, value));
                    }
                }
                Step::Other
            }
            _ => Step::Other,
        };
        if matches!(step, Step::Bad(_)) {
            return Ok(step);
        }
        let remarks = match (kind, &step) {
            (SECTION, _) => body.get(16..),
            (INTERFACE, _) => body.get(8..),
            (PACKET | OLD_PACKET, Step::Packet(f)) => {
                body.get((f.from + f.len).next_multiple_of(4)..)
            }
            _ => None,
        };
        let packet = matches!(step, Step::Packet(_)).then(|| {
            self.packets += 1;
            self.packets
        });
        // The end of options alone takes four bytes, and so does an option's header.
        if let Some(remarks) = remarks.filter(|r| r.len() > 4) {
            for (_, text) in options(swapped, remarks).filter(|(code, _)| *code == 1) {
                if self.comments.len() < COMMENTS {
                    let text = String::from_utf8_lossy(text).into_owned();
                    self.comments.push(Comment { packet, text });
                }
            }
        }
        if let Step::Packet(f) = step {
            self.found = Some(Found {
                from: 8 + f.from,
                total,
                ..f
            });
            return Ok(Step::Ready);
        }
        self.consume(total);
        Ok(step)
    }
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

enum Seek {
    At(usize),
    /// Number of bytes that must be ready before the search can decide.
    More(usize),
    None,
}

impl Classic {
    /// Record at the start of `rest`, if it is sound and complete.
    #[inline(always)]
    fn whole(&mut self, rest: &[u8]) -> Option<Found> {
        let head = rest.first_chunk::<16>()?;
        let (s, fraction) = (word(self.swapped, head, 0), word(self.swapped, head, 4));
        let len = word(self.swapped, head, 8);
        let end = self.header + len as usize;
        let ns = u64::from(fraction) * u64::from(self.tick_ns);
        if len as usize > self.most || ns >= u64::from(TICKS) || rest.len() < end {
            return None;
        }
        self.last_s = Some(s);
        Some(Found {
            t_ns: Some((u64::from(s) * u64::from(TICKS) + ns) as i64),
            link: self.link,
            interface: 0,
            original_len: word(self.swapped, head, 12).max(len),
            from: self.header,
            len: len as usize,
            total: end,
        })
    }

    /// Length of a plausible record at this place.
    fn plausible(&self, head: &[u8]) -> Option<usize> {
        let (s, fraction) = (word(self.swapped, head, 0), word(self.swapped, head, 4));
        let (len, whole) = (
            word(self.swapped, head, 8) as usize,
            word(self.swapped, head, 12) as usize,
        );
        let near = self.last_s.is_none_or(|last| s.abs_diff(last) <= NEAR_S);
        (near
            && fraction < TICKS / self.tick_ns
            && (14..=self.most).contains(&len)
            && (len..=MOST).contains(&whole))
        .then_some(len)
    }

    /// Next plausible place. Two plausible headers at the right distance are needed, because a single one occurs in
    /// noise.
    fn resume_at(&self, rest: &[u8], ended: bool) -> Seek {
        for at in 0..rest.len().saturating_sub(self.header - 1) {
            let Some(len) = self.plausible(&rest[at..]) else {
                continue;
            };
            let next = at + self.header + len;
            if next == rest.len() && ended {
                return Seek::At(at);
            }
            if next + self.header <= rest.len() {
                if self.plausible(&rest[next..]).is_some() {
                    return Seek::At(at);
                }
            } else if !ended {
                return Seek::More(next + self.header);
            }
        }
        Seek::None
    }
}

impl Blocks {
    fn resume_at(&self, rest: &[u8]) -> Seek {
        for at in 0..rest.len().saturating_sub(11) {
            let kind = word(self.swapped, rest, at);
            if kind == SECTION && matches!(word(false, rest, at + 8), 0x1a2b_3c4d | 0x4d3c_2b1a) {
                return Seek::At(at);
            }
            if !(1..=6).contains(&kind) {
                continue;
            }
            let total = word(self.swapped, rest, at + 4) as usize;
            // No interface or packet block is shorter than 16 bytes or longer than a jumbo of 1 MiB.
            if !(16..=1 << 20).contains(&total) || !total.is_multiple_of(4) {
                continue;
            }
            match rest.get(at + total - 4..at + total) {
                Some(again) if word(self.swapped, again, 0) as usize == total => {
                    return Seek::At(at);
                }
                Some(_) => {}
                None => return Seek::More(at + total),
            }
        }
        Seek::None
    }

    fn packet(&self, kind: u32, body: &[u8]) -> Step {
        if body.len() < 20 {
            return Step::Bad("a packet block that is too short".into());
        }
        let number = if kind == OLD_PACKET {
            u32::from(half(self.swapped, body, 0))
        } else {
            word(self.swapped, body, 0)
        };
        let Some(interface) = self.interfaces.get(number as usize) else {
            return Step::Bad(format!(
                "a packet of interface {number}, of which there are {}",
                self.interfaces.len()
            ));
        };
        let len = word(self.swapped, body, 12) as usize;
        if 20 + len > body.len() {
            return Step::Bad(format!(
                "a packet of {len} bytes in a block of {}",
                body.len()
            ));
        }
        let units =
            u64::from(word(self.swapped, body, 4)) << 32 | u64::from(word(self.swapped, body, 8));
        Step::Packet(Found {
            t_ns: Some(interface.time(units)),
            link: interface.link,
            interface: number,
            original_len: word(self.swapped, body, 16).max(len as u32),
            from: 20,
            len,
            total: 0,
        })
    }

    fn simple(&self, body: &[u8]) -> Step {
        let (Some(interface), true) = (self.interfaces.first(), body.len() >= 4) else {
            return Step::Bad("a simple packet block without an interface before it".into());
        };
        let original_len = word(self.swapped, body, 0);
        let kept = match interface.snaplen {
            0 => original_len,
            snaplen => original_len.min(snaplen),
        };
        let len = (kept as usize).min(body.len() - 4);
        Step::Packet(Found {
            t_ns: None,
            link: interface.link,
            interface: 0,
            original_len,
            from: 4,
            len,
            total: 0,
        })
    }
}

impl Interface {
    fn read(swapped: bool, body: &[u8]) -> Option<Interface> {
        let head = body.get(..8)?;
        let mut interface = Interface {
            link: LinkType(half(swapped, head, 0)),
            snaplen: word(swapped, head, 4),
            resolution: Resolution::Ten(6),
            offset_s: 0,
        };
        for (code, value) in options(swapped, &body[8..]) {
            match (code, value) {
                // if_tsresol: the power of ten, or of two if the highest bit is set
                (9, [r, ..]) if r & 0x80 != 0 => {
                    interface.resolution = Resolution::Two(u32::from(r & 0x7f));
                }
                (9, [r, ..]) => interface.resolution = Resolution::Ten(u32::from(*r)),
                (14, v) if v.len() == 8 => interface.offset_s = long(swapped, v) as i64,
                _ => {}
            }
        }
        Some(interface)
    }

    fn time(&self, units: u64) -> i64 {
        let ns = match self.resolution {
            Resolution::Ten(6) => i128::from(units) * 1000,
            Resolution::Ten(9) => i128::from(units),
            Resolution::Ten(p) if p < 9 => i128::from(units) * 10i128.pow(9 - p),
            Resolution::Ten(p) => i128::from(units) / 10i128.pow((p - 9).min(30)),
            Resolution::Two(p) => (i128::from(units) * 1_000_000_000) >> p.min(100),
        };
        let ns = ns + i128::from(self.offset_s) * 1_000_000_000;
        ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Options of a block: code and value, until the end or an invalid one.
fn options(swapped: bool, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.get(..4)?;
        let (code, len) = (half(swapped, head, 0), half(swapped, head, 2) as usize);
        let value = bytes.get(4..4 + len)?;
        bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or(&[]);
        (code != 0).then_some((code, value))
    })
}

#[inline(always)]
fn word(swapped: bool, bytes: &[u8], at: usize) -> u32 {
    let raw = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if swapped { raw.swap_bytes() } else { raw }
}

fn half(swapped: bool, bytes: &[u8], at: usize) -> u16 {
    let raw = u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
    if swapped { raw.swap_bytes() } else { raw }
}

fn long(swapped: bool, bytes: &[u8]) -> u64 {
    let raw = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    if swapped { raw.swap_bytes() } else { raw }
}
