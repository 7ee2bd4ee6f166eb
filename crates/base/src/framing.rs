//! Bytes that an IP packet takes on the wire: lower-layer headers and trailers, and cells on links that have them.
//!
//! **Sources**: IEEE Std 802.3-2022, clauses 3 and 4 (preamble, frame, gap; 64-byte minimum) and 61.3.3 (64/65-octet
//! encapsulation of PTM); RFC 2516, "A Method for Transmitting PPP Over Ethernet (PPPoE)", section 4; RFC 2684,
//! "Multiprotocol Encapsulation over ATM Adaptation Layer 5", sections 5 and 6; RFC 2364, "PPP Over AAL5"; ITU-T I.363.5
//! (AAL5: a trailer of 8 bytes, then padding to whole cells of 48 bytes, each sent as 53); CableLabs
//! DOCSIS MULPI 3.1, section C.2.2.7 (a service flow's rate counts the Ethernet frame with its FCS). The DSL names and
//! overheads are those of `tc-cake(8)`, so that a link and its shaper take the same settings.
//!
//! **Deviations**: a PTM codeword belongs to one packet, as in Linux's `cake_calc_overhead`. A modem lets a codeword
//! run on from one packet to the next, so this model counts up to one byte per packet too much.

use crate::Bytes;
use crate::spec::{Params as _, choices, params};
use crate::words::{Entry, worded};

choices! {
    /// Division of a frame before it is sent.
    pub enum Cells {
        /// Frames are sent whole.
        None = "none",
        /// Cells with 48 bytes of payload and 5 of header; the last one is padded.
        Atm = "atm",
        /// Frames with one extra byte for each 64 bytes or part of 64.
        Ptm = "ptm",
    }
}

/// Rule that turns packets into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to each packet before it is divided.
    pub overhead: Bytes,
    /// Smallest frame; shorter ones are padded to this size.
    pub least: Bytes,
    /// Cells of the framing, if it has them.
    pub cells: Cells,
}

impl Framing {
    /// Framing without any layer below IP.
    pub const NONE: Framing = Framing {
        overhead: Bytes::ZERO,
        least: Bytes::ZERO,
        cells: Cells::None,
    };

    /// Returns the bytes on the wire for an IP packet of this size.
    #[inline]
    pub fn wire(&self, packet: Bytes) -> Bytes {
        let frame = (packet.get() + self.overhead.get()).max(self.least.get());
        Bytes::new(match self.cells {
            Cells::None => frame,
            Cells::Atm => frame.div_ceil(48) * 53,
            Cells::Ptm => frame + frame.div_ceil(64),
        })
    }
}

params! {
    /// Parameters of a framing that has a name.
    #[derive(Clone, Copy, Debug)]
    struct Tagged {
        /// further bytes in each frame, such as a VLAN tag or the Ethernet FCS that a bridged ATM link preserves
        extra: Bytes = "0 B" ["0".."256"], "4 B for each IEEE 802.1Q tag";
    }
}

struct Named {
    framing: Framing,
    entry: Entry,
}

macro_rules! named {
    ($($name:literal $overhead:literal $least:literal $cells:ident $summary:literal),+ $(,)?) => {
        static NAMED: &[Named] = &[$(Named {
            framing: Framing { overhead: Bytes::new($overhead), least: Bytes::new($least), cells: Cells::$cells },
            entry: Entry { name: $name, summary: $summary, ..Tagged::ENTRY },
        }),+];
    };
}

named! {
    "ethernet" 38 84 None "preamble 8 B, header 14 B, FCS 4 B, gap 12 B; at least 84 B",
    "pppoe" 46 84 None "PPPoE on Ethernet: 8 B more than ethernet",
    "docsis" 18 64 None "cable: header 14 B and FCS 4 B; at least 64 B",
    "ipoa-vcmux" 8 0 Atm "IP over AAL5, VC multiplexing: AAL5 trailer 8 B, ATM cells",
    "ipoa-llcsnap" 16 0 Atm "IP over AAL5, LLC/SNAP 8 B: ATM cells",
    "bridged-vcmux" 24 0 Atm "Ethernet over AAL5 without FCS, VC multiplexing: ATM cells",
    "bridged-llcsnap" 32 0 Atm "Ethernet over AAL5 without FCS, LLC/SNAP: ATM cells",
    "pppoa-vcmux" 10 0 Atm "PPP over AAL5, VC multiplexing: ATM cells",
    "pppoa-llc" 14 0 Atm "PPP over AAL5, LLC: ATM cells",
    "pppoe-vcmux" 32 0 Atm "PPPoE over bridged Ethernet over AAL5, VC multiplexing: ATM cells",
    "pppoe-llcsnap" 40 0 Atm "PPPoE over bridged Ethernet over AAL5, LLC/SNAP: ATM cells",
    "bridged-ptm" 22 0 Ptm "VDSL2: Ethernet with FCS in PTM, 64/65 octets",
    "pppoe-ptm" 30 0 Ptm "VDSL2: PPPoE on Ethernet in PTM, 64/65 octets",
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct Explicit for "bytes": "framing given in figures", [] {
        /// bytes added to each packet
        overhead: Bytes = "0 B" ["0".."256"], "none: there is no usual one";
        /// smallest frame; shorter ones are padded
        least: Bytes = "0 B" ["0".."256"], "none: there is no usual one";
        /// how frames are divided: not at all, 48 bytes in cells of 53, or 64 octets in 65
        cells: Cells = "none", "most links send frames whole";
    }
}

/// Returns all named framings.
pub fn framings() -> impl Iterator<Item = &'static Entry> + Clone {
    NAMED.iter().map(|n| &n.entry).chain([&Explicit::ENTRY])
}

worded! {
    /// Framing of a link, written as `pppoe-llcsnap`, `ethernet:extra=4` or `bytes:overhead=44,cells=atm`.
    FramingSpec, "framing", framings()
}

impl FramingSpec {
    /// Returns the framing that this text names.
    pub fn framing(&self) -> Framing {
        let words = self.words();
        match NAMED.iter().find(|n| n.entry.name == words.entry().name) {
            Some(named) => Framing {
                overhead: named.framing.overhead + words.read::<Tagged>().extra,
                ..named.framing
            },
            None => {
                let Explicit {
                    overhead,
                    least,
                    cells,
                } = words.read();
                Framing {
                    overhead,
                    least,
                    cells,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str, packet: u64) -> u64 {
        let spec: FramingSpec = text.parse().unwrap();
        assert_eq!(spec.to_string().parse::<FramingSpec>().unwrap(), spec);
        spec.framing().wire(Bytes::new(packet)).get()
    }

    #[test]
    fn cells_and_frames_are_those_counted_by_hand() {
        for (framing, packet, expected) in [
            // 1500 + 40 = 1540 = 32 x 48 + 4: 33 cells.
            ("pppoe-llcsnap", 1500, 33 * 53),
            // 1492 + 40 = 1532 = 31 x 48 + 44: 32 cells.
            ("pppoe-llcsnap", 1492, 32 * 53),
            // 40 + 8 = 48: exactly one cell; one byte more takes two.
            ("ipoa-vcmux", 40, 53),
            ("ipoa-vcmux", 41, 2 * 53),
            // 1478 + 10 = 1488 = 31 x 48.
            ("pppoa-vcmux", 1478, 31 * 53),
            ("pppoa-vcmux", 1479, 32 * 53),
            // 52 + 14 = 66; 52 + 16 = 68; 52 + 24 = 76; 52 + 32 = 84: two cells each.
            ("pppoa-llc", 52, 106),
            ("ipoa-llcsnap", 52, 106),
            ("bridged-vcmux", 52, 106),
            ("bridged-llcsnap", 52, 106),
            // 65 + 32 = 97 = 2 x 48 + 1: three cells.
            ("pppoe-vcmux", 65, 159),
            ("bridged-llcsnap", 65, 159),
            // The FCS of a bridged link: 60 + 32 + 4 = 96 = 2 x 48.
            ("bridged-llcsnap:extra=4", 60, 106),
            // 1500 + 38; a small packet is padded to 64 B of frame, 84 B with preamble and gap.
            ("ethernet", 1500, 1538),
            ("ethernet", 46, 84),
            ("ethernet", 40, 84),
            ("ethernet:extra=4", 1500, 1542),
            ("pppoe", 1492, 1538),
            ("pppoe", 38, 84),
            ("docsis", 1500, 1518),
            ("docsis", 40, 64),
            // 1500 + 30 = 1530 = 23 x 64 + 58: 24 further bytes. 34 + 30 = 64: one.
            ("pppoe-ptm", 1500, 1554),
            ("pppoe-ptm", 34, 65),
            ("pppoe-ptm", 35, 67),
            ("bridged-ptm", 1500, 1546),
            ("bytes:overhead=44,cells=atm", 1500, 33 * 53),
            ("bytes:overhead=5,least=100", 95, 100),
            ("bytes:overhead=5,least=100", 96, 101),
            ("bytes", 96, 96),
        ] {
            assert_eq!(wire(framing, packet), expected, "{framing}, {packet} B");
        }
    }

    #[test]
    fn every_framing_reads_back_and_never_shrinks_a_packet() {
        for entry in framings() {
            let mut before = 0;
            for packet in 1..=2_000 {
                let now = wire(entry.name, packet);
                assert!(now >= packet && now >= before, "{}, {packet} B", entry.name);
                before = now;
            }
        }
        let e = "pppoe-llcsnp".parse::<FramingSpec>().unwrap_err();
        assert!(
            e.to_string().ends_with("Did you mean \"pppoe-llcsnap\"?"),
            "{e}"
        );
    }
}
