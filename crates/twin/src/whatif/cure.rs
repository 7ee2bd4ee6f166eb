//! Cures in words: `up.shaper=cake:665kbit`, `up.queue=pie`, `down.rate=50mbit`, `sender=bbr`; several at once with `+`.
//!
//! A shaper is a queue of its own, in a router between the home and the link. It empties the link's own queue only while
//! its rate is below the link's, so both are simulated in series.

use crate::senders::controller_named;
use base::BitsPerSec;
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
        let parts = text.split('+').map(|part| {
            read(part.trim()).map_err(|why| CureError {
                cure: text.into(),
                why,
            })
        });
        Ok(Cure {
            text: text.trim().into(),
            parts: parts.collect::<Result<_, _>>()?,
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
        delay: base::Duration::ZERO,
        mtu: like.mtu,
        framing: None,
        policer: None,
        shaper: None,
        drift: None,
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

/// Cures that are tried without being named, for this home.
pub fn usual(home: &Home) -> Vec<Cure> {
    let mut all = vec![Cure::none()];
    let mut add = |text: String| {
        all.push(Cure::parse(&text).expect("a cure of this program is well-formed"));
    };
    for queue in ["cake", "fq_codel", "fq_pie", "pie", "codel", "dualpi2"] {
        add(format!("up.shaper={queue}:95% + down.shaper={queue}:95%"));
    }
    add("up.shaper=cake:85% + down.shaper=cake:85%".into());
    add("up.shaper=cake:95%".into());
    add("down.shaper=cake:95%".into());
    let rtt_ms = home.link.propagation_rtt().as_millis_f64().max(20.0);
    let short = |spec: &DirectionSpec| {
        let bytes = mean_bps(spec) * rtt_ms / 8e3;
        format!("fifo:bytes={:.0} B", bytes.max(6_000.0))
    };
    let (up, down) = (short(&home.link.up), short(&home.link.down));
    add(format!("up.queue={up} + down.queue={down}"));
    add("up.queue=fq_codel + down.queue=fq_codel".into());
    add("sender=bbr".into());
    for (key, spec) in [("up", &home.link.up), ("down", &home.link.down)] {
        if let RateSpec::Fixed(rate) = spec.rate {
            add(format!("{key}.rate={} bit/s", rate.get() * 2));
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
