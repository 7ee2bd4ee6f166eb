//! Ports that clients may have opened.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Set of ports, written as `80,443,40000-40999`, or `any`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortSet(Vec<RangeInclusive<u16>>);

impl PortSet {
    /// All ports; those below 1024 only if the server may bind them.
    pub fn any() -> PortSet {
        PortSet(vec![1..=u16::MAX])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|r| r.contains(&port))
    }

    /// True if the set has a port below this one.
    pub fn holds_below(&self, port: u16) -> bool {
        self.0.iter().any(|r| *r.start() < port)
    }

    /// Port for a client without a preference: one above 1023 if the set has any. `random` decides; 0 if the set is
    /// empty.
    pub fn draw(&self, random: u64) -> u16 {
        let high = |r: &RangeInclusive<u16>| (*r.start()).max(1024)..=*r.end();
        let high: Vec<_> = self.0.iter().map(high).filter(|r| !r.is_empty()).collect();
        let from = if high.is_empty() { &self.0 } else { &high };
        let count: u64 = from.iter().map(|r| r.len() as u64).sum();
        let Some(mut at) = random.checked_rem(count) else {
            return 0;
        };
        for range in from {
            let len = range.len() as u64;
            if at < len {
                return range.start() + at as u16;
            }
            at -= len;
        }
        0
    }
}

impl FromStr for PortSet {
    type Err = String;

    fn from_str(text: &str) -> Result<PortSet, String> {
        if text == "any" {
            return Ok(PortSet::any());
        }
        let wrong = |part: &str| {
            format!(
                "{part:?} is no port and no range of ports: write them as 80,443,40000-40999, or \"any\""
            )
        };
        let one = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let read = |s: &str| s.trim().parse::<u16>().ok().filter(|p| *p > 0);
            match (read(first), read(last)) {
                (Some(first), Some(last)) if first <= last => Ok(first..=last),
                _ => Err(wrong(part)),
            }
        };
        text.split(',')
            .map(one)
            .collect::<Result<_, _>>()
            .map(PortSet)
    }
}

impl TryFrom<String> for PortSet {
    type Error = String;

    fn try_from(text: String) -> Result<PortSet, String> {
        text.parse()
    }
}

impl From<PortSet> for String {
    fn from(it: PortSet) -> String {
        it.to_string()
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == PortSet::any() {
            return f.write_str("any");
        }
        for (i, range) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_read_as_they_are_written_and_draw_only_what_they_hold() {
        for text in ["80", "80,443,40000-40999", "any", "5-5,1-1023"] {
            let set: PortSet = text.parse().expect(text);
            let again: PortSet = set.to_string().parse().expect("readable");
            assert_eq!(set, again);
            for random in 0..3000u64 {
                let port = set.draw(random.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                assert!(set.contains(port), "{text}: {port}");
                assert!(port >= 1024 || !set.contains(40_000), "{text}: {port}");
            }
        }
        for wrong in ["", "0", "65536", "9-8", "80;443", "all"] {
            let e = wrong.parse::<PortSet>().expect_err(wrong);
            assert!(e.contains("40000-40999"), "{e}");
        }
        assert_eq!(PortSet::default().draw(7), 0);
        assert!(!PortSet::default().contains(7));
    }
}
