//! Cures in words: `up.shaper=cake:665kbit`, `up.queue=pie`, `down.rate=50mbit`, `sender=bbr`; several at once with `+`.
//! `shaper`, `queue` and `buffer` without a direction change both.
//!
//! A shaper is a queue of its own, in a router between the home and the link. It empties the link's own queue only while
//! its rate is below the link's, so both are simulated in series.

use crate::senders::controller_named;
use base::{BitsPerSec, Duration};
use congestion::ControllerSpec;
use link::qdisc::registry::QdiscSpec;
use link::{DirectionSpec, LinkSpec, RateSpec};
use std::sync::Arc;

/// Rate of a router's direction that does not shape.
const OPEN: BitsPerSec = BitsPerSec::from_mbps(100_000);

/// Link, router and sender of a simulated home.
#[derive(Clone, Debug, PartialEq)]
pub struct Home {
    /// Link.
    pub link: LinkSpec,
    /// Router between the home and the link, if it shapes.
    pub router: Option<LinkSpec>,
    /// Congestion controller of the senders.
    pub controller: Arc<ControllerSpec>,
    /// True if the senders use ECN.
    pub ecn: bool,
    /// Segments that leave a sender together.
    pub burst: u64,
}

/// Error for a cure that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cure \"{cure}\": {why}")]
pub struct CureError {
    cure: String,
    why: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Shaper {
        up: bool,
        queue: QdiscSpec,
        rate: At,
    },
    Set(String, String),
    /// Plain queue that drains in this time at the mean rate.
    Buffer {
        up: bool,
        time: Duration,
    },
    Sender(Arc<ControllerSpec>, bool),
}

/// Rate of a shaper: as such, or as a share of the link's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Rate(BitsPerSec),
    Share(f64),
}

/// Cure of a link; the empty one leaves it as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Cure {
    /// Cure as it was written.
    pub text: String,
    parts: Vec<Part>,
}

impl Cure {
    /// The link as it is.
    pub fn none() -> Cure {
        Cure {
            text: "as it is".into(),
            parts: Vec::new(),
        }
    }

    /// Reads a cure.
    ///
    /// # Errors
    /// An unknown key, discipline, rate or controller.
    pub fn parse(text: &str) -> Result<Cure, CureError> {
        let mut parts = Vec::new();
        for part in text.split('+') {
            let read = both_ways(part.trim(), read);
            parts.extend(read.map_err(|why| CureError {
                cure: text.into(),
                why,
            })?);
        }
        Ok(Cure {
            text: text.trim().into(),
            parts,
        })
    }

    /// Home with this cure.
    ///
    /// # Errors
    /// A value that does not fit the link.
    pub fn apply(&self, home: &Home) -> Result<Home, CureError> {
        let refuse = |why: String| CureError {
            cure: self.text.clone(),
            why,
        };
        let mut cured = home.clone();
        for part in &self.parts {
            match part {
                Part::Set(key, value) => {
                    let set = cured.link.set(key, value);
                    set.map_err(|e| refuse(e.to_string()))?;
                }
                Part::Buffer { up, time } => {
                    let own = match up {
                        true => &mut cured.link.up,
                        false => &mut cured.link.down,
                    };
                    let bytes = mean_bps(own) / 8.0 * time.as_secs_f64();
                    // Two full packets: one leaves while the next one arrives.
                    let bytes = bytes.max(2.0 * own.mtu.get() as f64);
                    let queue = format!("fifo:bytes={bytes:.0} B").parse();
                    own.queue =
                        queue.map_err(|e: base::words::WordsError| refuse(e.to_string()))?;
                }
                Part::Sender(controller, ecn) => {
                    cured.controller = controller.clone();
                    cured.ecn = *ecn;
                }
                Part::Shaper { up, queue, rate } => {
                    let own = match up {
                        true => &home.link.up,
                        false => &home.link.down,
                    };
                    let rate = match rate {
                        At::Rate(rate) => *rate,
                        At::Share(share) => {
                            BitsPerSec::new((mean_bps(own) * share).round().max(1.0) as u64)
                        }
                    };
                    let router = cured.router.get_or_insert_with(|| open(own));
                    let side = match up {
                        true => &mut router.up,
                        false => &mut router.down,
                    };
                    side.queue = for_rate(queue, rate);
                    side.rate = RateSpec::Fixed(rate);
                    side.framing = own.framing.clone();
                }
            }
        }
        Ok(cured)
    }

    /// True if it changes nothing.
    pub fn is_none(&self) -> bool {
        self.parts.is_empty()
    }
}

/// CAKE at a rate: unless it is given a target, it waits at least one and a half full packets' time (Linux sch_cake,
/// `cake_set_rate`).
fn for_rate(queue: &QdiscSpec, rate: BitsPerSec) -> QdiscSpec {
    let text = queue.to_string();
    let packet_ms = 1514.0 * 8e3 / rate.get().max(1) as f64;
    let target_ms = 1.5 * packet_ms;
    if queue.name() != "cake" || text.contains("target") || target_ms <= 5.0 {
        return queue.clone();
    }
    let interval_ms = (100.0 + target_ms - 5.0).max(2.0 * target_ms);
    let rest = text.strip_prefix("cake").unwrap_or("");
    let rest = rest
        .strip_prefix(':')
        .map_or(String::new(), |r| format!(",{r}"));
    let scaled = format!("cake:target={target_ms:.3}ms,interval={interval_ms:.3}ms{rest}");
    scaled.parse().unwrap_or_else(|_| queue.clone())
}

/// Mean rate of a direction, bit/s.
pub fn mean_bps(spec: &DirectionSpec) -> f64 {
    spec.params().map_or(0.0, |p| p.rate.mean().get() as f64)
}

/// Router that delays nothing.
fn open(like: &DirectionSpec) -> LinkSpec {
    let side = || DirectionSpec {
        queue: "fifo".parse().expect("fifo is in the table"),
        delay: Duration::ZERO,
        mtu: like.mtu,
        framing: None,
        policer: None,
        shaper: None,
        drift: None,
        delays: None,
        jitter: None,
        loss: None,
        reorder: None,
        sleep: None,
        duplicate: 0.0,
        rate: RateSpec::Fixed(OPEN),
    };
    LinkSpec {
        name: "router".into(),
        title: "Router of the home".into(),
        up: side(),
        down: side(),
    }
}

/// Reads a part; one without a direction is one of each direction.
fn both_ways(part: &str, read: impl Fn(&str) -> Result<Part, String>) -> Result<Vec<Part>, String> {
    let key = part.split('=').next().unwrap_or_default().trim();
    match key {
        "shaper" | "queue" | "buffer" => ["up", "down"]
            .iter()
            .map(|direction| read(&format!("{direction}.{part}")))
            .collect(),
        _ => Ok(vec![read(part)?]),
    }
}

fn read(part: &str) -> Result<Part, String> {
    let Some((key, value)) = part.split_once('=') else {
        return Err(format!(
            "\"{part}\" is not KEY=VALUE, such as up.shaper=cake:665kbit, up.queue=pie, down.rate=50mbit or sender=bbr"
        ));
    };
    let (key, value) = (key.trim(), value.trim());
    match key {
        "sender" => {
            let known = controller_named(value).map_err(|e| e.to_string())?;
            let ecn = matches!(known.name(), "prague" | "dctcp");
            Ok(Part::Sender(Arc::new(known), ecn))
        }
        "up.shaper" | "down.shaper" => {
            let Some((queue, rate)) = value.rsplit_once(':') else {
                return Err(format!(
                    "\"{value}\" is not DISCIPLINE:RATE, such as cake:665kbit or cake:95%"
                ));
            };
            let queue = queue
                .parse()
                .map_err(|e: base::words::WordsError| e.to_string())?;
            Ok(Part::Shaper {
                up: key == "up.shaper",
                queue,
                rate: at(rate)?,
            })
        }
        "up.buffer" | "down.buffer" => {
            let time: Duration = value
                .parse()
                .map_err(|e| format!("\"{value}\" is no time, such as buffer=30ms: {e}"))?;
            Ok(Part::Buffer {
                up: key == "up.buffer",
                time,
            })
        }
        _ => {
            // The key is checked now, on any link; the value again on the link that is cured.
            let mut any = LinkSpec::named("adsl").map_err(|e| e.to_string())?;
            any.set(key, value).map_err(|e| e.to_string())?;
            Ok(Part::Set(key.into(), value.into()))
        }
    }
}

fn at(text: &str) -> Result<At, String> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        let rate: BitsPerSec = text.parse().map_err(|e| format!("{e}"))?;
        return match rate.get() {
            0 => Err("a shaper of 0 bit/s passes nothing".into()),
            _ => Ok(At::Rate(rate)),
        };
    };
    let share: f64 = percent
        .trim()
        .parse()
        .map_err(|_| format!("\"{text}\" is no share of the link's rate, such as 95%"))?;
    match (1.0..=1000.0).contains(&share) {
        true => Ok(At::Share(share / 100.0)),
        false => Err(format!("{text} is out of range: from 1% to 1000%")),
    }
}

/// Rate without spaces, as short as it is exact.
fn plain(rate: BitsPerSec) -> String {
    match rate.get() {
        bps if bps % 1_000_000 == 0 => format!("{}mbit", bps / 1_000_000),
        bps if bps >= 100_000 => format!("{:.0}kbit", bps as f64 / 1e3),
        bps => format!("{bps}bit"),
    }
}

/// Cures that are tried without being named, for this home.
pub fn usual(home: &Home) -> Vec<Cure> {
    let mut all = vec![Cure::none()];
    let mut add = |text: String| {
        all.push(Cure::parse(&text).expect("a cure of this program is well-formed"));
    };
    for queue in ["cake", "fq_codel", "fq_pie", "pie", "codel", "dualpi2"] {
        add(format!("shaper={queue}:95%"));
    }
    add("shaper=cake:85%".into());
    add("up.shaper=cake:95%".into());
    add("down.shaper=cake:95%".into());
    let rtt_ms = home.link.propagation_rtt().as_millis_f64().max(20.0);
    add(format!("buffer={rtt_ms:.0}ms"));
    add("queue=fq_codel".into());
    add("sender=bbr".into());
    for (key, spec) in [("up", &home.link.up), ("down", &home.link.down)] {
        if let RateSpec::Fixed(rate) = spec.rate {
            let doubled = BitsPerSec::new(rate.get() * 2);
            add(format!("{key}.rate={}", plain(doubled)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home {
            link: LinkSpec::named("adsl").unwrap(),
            router: None,
            controller: Arc::new("cubic".parse().unwrap()),
            ecn: false,
            burst: 1,
        }
    }

    #[test]
    fn a_shaper_is_a_router_in_front_of_the_link_and_leaves_the_link_alone() {
        let cured = Cure::parse("up.shaper=cake:665kbit").unwrap();
        let cured = cured.apply(&home()).unwrap();
        assert_eq!(cured.link, home().link);
        let router = cured.router.unwrap();
        assert_eq!(router.up.queue.name(), "cake");
        assert_eq!(router.up.rate, RateSpec::Fixed(BitsPerSec::from_kbps(665)));
        assert_eq!(router.down.rate, RateSpec::Fixed(OPEN));
        let share = Cure::parse("up.shaper=fq_codel:target=10ms:95% + sender=bbr").unwrap();
        let cured = share.apply(&home()).unwrap();
        assert_eq!(
            cured.router.unwrap().up.rate,
            RateSpec::Fixed(BitsPerSec::from_kbps(665))
        );
        assert_eq!(cured.controller.name(), "bbr1");
        let slow = Cure::parse("up.shaper=cake:95%")
            .unwrap()
            .apply(&home())
            .unwrap();
        let queue = slow.router.unwrap().up.queue.to_string();
        // 1514 B at 665 kbit/s take 18.214 ms.
        assert!(
            queue.starts_with("cake:target=27.32 ms,interval=122.32 ms"),
            "{queue}"
        );
    }

    #[test]
    fn a_part_without_a_direction_is_one_of_each() {
        let applied = |text: &str| Cure::parse(text).unwrap().apply(&home()).unwrap();
        for (short, long) in [
            ("shaper=pie:95%", "up.shaper=pie:95% + down.shaper=pie:95%"),
            ("queue=codel", "up.queue=codel + down.queue=codel"),
            (
                "buffer=30ms+sender=bbr",
                "up.buffer=30ms + down.buffer=30ms + sender=bbr",
            ),
        ] {
            assert_eq!(applied(short), applied(long), "{short}");
        }
        let link = applied("up.buffer=100ms").link;
        let bytes = mean_bps(&home().link.up) / 80.0;
        assert_eq!(
            link.up.queue.limits().bytes.map(|b| b.get()),
            Some(bytes.round() as u64)
        );
        assert_eq!(link.down, home().link.down);
        // Two packets of 1500 B are the least.
        let least = applied("up.buffer=0ms").link.up.queue.limits().bytes;
        assert_eq!(least, Some(base::Bytes::new(3000)));
    }

    #[test]
    fn a_cure_that_is_not_understood_says_what_is() {
        let why = |text: &str| Cure::parse(text).unwrap_err().to_string();
        assert!(why("cake").contains("up.shaper=cake:665kbit"));
        assert!(why("up.shaper=cake").contains("DISCIPLINE:RATE"));
        assert!(why("up.shaper=caek:1mbit").contains("Did you mean \"cake\"?"));
        assert!(why("up.shaper=cake:0%").contains("out of range"));
        assert!(why("up.shaper=cake:0bit").contains("passes nothing"));
        assert!(why("up.qeue=pie").contains("Did you mean \"up.queue\"?"));
        assert!(why("sender=cubik").contains("cubic"));
    }

    #[test]
    fn the_usual_cures_are_a_dozen_and_fit_every_preset() {
        for preset in link::PRESETS {
            let home = Home {
                link: LinkSpec::named(preset.name).unwrap(),
                ..home()
            };
            let all = usual(&home);
            assert!(all.len() >= 12);
            for cure in &all {
                cure.apply(&home).unwrap();
            }
        }
    }
}
