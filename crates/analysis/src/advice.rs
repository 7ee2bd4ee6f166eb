//! Advice: settings against a long queue, as scripts that can be run twice and undone, and that survive a reboot.
//!
//! **Method.** A queue that is too long is replaced by one that we own. A shaper a little below the link's rate moves
//! the queue to a router, where a modern discipline keeps it short. It is set to 95 % of the rate up, and to 90 % down,
//! where it stands behind the bottleneck and must leave it room to drain. The rate is the lower end of its interval: a
//! shaper above the link's rate does nothing. If the router cannot be configured, the hosts' own buffers and pacing help
//! their own traffic.
//!
//! **Source.** RFC 8290 (FQ-CoDel), RFC 7567 (recommendation for AQM); tc-cake(8), OpenWrt sqm-scripts;
//! Catalán 2014, chapter 8.
//!
//! **Limits.** Measured rates count IP packets. A shaper that counts ATM cells or PTM bytes needs the rate of the wire:
//! the scripts take it from packets of 1500 bytes if the user says what the link is. The user has to name the interface.

use crate::answer::{Advice, DirectionAnswer, Discipline, Script};
use crate::rate;
use base::record::Direction;
use stats::Figure;

/// Directions that need help, and how strongly.
pub struct Need {
    /// True if downloads need help.
    pub down: bool,
    /// True if uploads need help.
    pub up: bool,
}

/// Recommended settings for both directions.
pub fn advice(need: &Need, down: &DirectionAnswer, up: &DirectionAnswer) -> Vec<Advice> {
    if !need.down && !need.up {
        return Vec::new();
    }
    let mut list = varying(down, up).into_iter().collect::<Vec<_>>();
    let steady = list.is_empty();
    let up_kbit = kbit(&up.link_rate_bps, 0.95).filter(|_| need.up && steady);
    let down_kbit = kbit(&down.link_rate_bps, 0.90).filter(|_| need.down && steady);
    if up_kbit.is_none() && down_kbit.is_none() {
        if !list.is_empty() {
            list.push(host(need));
        }
        return list;
    }
    list.push(linux(down_kbit, up_kbit));
    list.push(openwrt(down_kbit, up_kbit));
    if let Some(a) = buffer(need, down, up) {
        list.push(a);
    }
    list.push(host(need));
    list
}

/// Least share of the rate to which a shaper is set.
const LEAST_SHARE: f64 = 0.75;

/// Rate of a shaper, kbit/s: this share of the lower end of the link's rate.
fn kbit(link_rate_bps: &Figure, share: f64) -> Option<u64> {
    let Figure::Is { value, low, .. } = link_rate_bps else {
        return None;
    };
    let rate = (share * low).max(LEAST_SHARE * value);
    Some(((rate / 1e3).round() as u64).max(1))
}

/// Advice for a link whose rate varies, which no fixed shaper fits.
fn varying(down: &DirectionAnswer, up: &DirectionAnswer) -> Option<Advice> {
    // Where one direction of a radio varies, the other one does too.
    let of = |d: &DirectionAnswer, name: Direction| {
        let share = d.rate_varies.filter(|v| *v > rate::STEADY)?;
        Some(format!("{name} by {:.0} %", 100.0 * share))
    };
    let parts: Vec<String> = [of(up, Direction::Up), of(down, Direction::Down)]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| Advice {
        what: format!(
            "The rate of this link varies ({}): a fixed shaper cannot cure it, because it either wastes the fast times or lets \
             the queue back in at the slow ones. A shaper that follows the measured delay can (cake-autorate, for example), and so \
             can an AQM in the modem or the base station",
            parts.join(", ")
        ),
        on: "any router".into(),
        commands: Vec::new(),
        script: None,
    })
}

/// Bytes on the wire of an ATM link for an IP packet of 1500 bytes with 44 bytes of overhead: 33 cells of 53 bytes.
const ATM_BYTES: u64 = 1_749;
/// Bytes on the wire of a PTM link for the same packet: 30 bytes of overhead, and one byte in 65 for PTM itself.
const PTM_BYTES: u64 = 1_554;

fn rates(down: Option<u64>, up: Option<u64>) -> String {
    let part = |kbit: Option<u64>, name: &str| kbit.map(|k| format!("{k} kbit/s {name}"));
    [part(up, "up"), part(down, "down")]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Fills in a script.
fn script(file: &str, text: &str, values: &[(&str, u64)]) -> Option<Script> {
    let mut text = text.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), &value.to_string());
    }
    Some(Script {
        file: file.into(),
        text,
    })
}

/// Values of a shaper's script; 0 leaves a direction unshaped.
fn shaper(down: Option<u64>, up: Option<u64>) -> [(&'static str, u64); 4] {
    [
        ("UP_KBIT", up.unwrap_or(0)),
        ("DOWN_KBIT", down.unwrap_or(0)),
        ("ATM_BYTES", ATM_BYTES),
        ("PTM_BYTES", PTM_BYTES),
    ]
}

fn linux(down: Option<u64>, up: Option<u64>) -> Advice {
    Advice {
        what: format!(
            "On a Linux router, shape to {} with CAKE, so that the queue stands where it is kept short and fair; eth0 stands \
             for the interface towards the modem, and adsl or vdsl behind it adds the framing of such a link",
            rates(down, up)
        ),
        on: "Linux router".into(),
        commands: vec!["sudo sh shaper-linux.sh on eth0".into()],
        script: script(
            "shaper-linux.sh",
            include_str!("advice/shaper-linux.sh"),
            &shaper(down, up),
        ),
    }
}

fn openwrt(down: Option<u64>, up: Option<u64>) -> Advice {
    Advice {
        what: format!("On OpenWrt, the same through SQM: {}", rates(down, up)),
        on: "OpenWrt".into(),
        commands: vec!["sh shaper-openwrt.sh on".into()],
        script: script(
            "shaper-openwrt.sh",
            include_str!("advice/shaper-openwrt.sh"),
            &shaper(down, up),
        ),
    }
}

/// Recommended size of a plain buffer, for devices that offer no other setting.
fn buffer(need: &Need, down: &DirectionAnswer, up: &DirectionAnswer) -> Option<Advice> {
    let of = |needed: bool, d: &DirectionAnswer, name: Direction| {
        let drop_tail = d.discipline.is == Discipline::DropTail;
        let (bdp, bytes) = (d.bdp_bytes.value()?, d.queue_bytes.value()?);
        // One bandwidth-delay product, and never less than a few packets.
        let right = bdp.max(6.0 * 1500.0);
        (needed && drop_tail && bytes > 1.5 * right).then(|| {
            format!(
                "{name}: {right:.0} bytes ({:.0} packets) instead of {bytes:.0}",
                (right / 1500.0).ceil()
            )
        })
    };
    let parts: Vec<String> = [
        of(need.up, up, Direction::Up),
        of(need.down, down, Direction::Down),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| Advice {
        what: format!(
            "Where the modem or the provider lets you set the buffer and nothing else: {}",
            parts.join("; ")
        ),
        on: "any router".into(),
        commands: Vec::new(),
        script: None,
    })
}

fn host(need: &Need) -> Advice {
    let values = [("UP", u64::from(need.up)), ("DOWN", u64::from(need.down))];
    Advice {
        what: "If nothing but this host can be set: make its own transfers fill the queue less; it does not help against other hosts".into(),
        on: "Linux host".into(),
        commands: vec!["sudo sh host-linux.sh on".into()],
        script: script("host-linux.sh", include_str!("advice/host-linux.sh"), &values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shaper_stands_below_the_lower_end_of_the_links_rate() {
        let of = |low: f64| {
            let rate = Figure::Is {
                value: 10e6,
                low,
                high: 11e6,
            };
            kbit(&rate, 0.9)
        };
        assert_eq!(of(10e6), Some(9000));
        assert_eq!(of(9e6), Some(8100));
        // Three quarters of the rate at least: less would waste the link.
        assert_eq!(of(1e6), Some(7500));
        assert_eq!(kbit(&Figure::cannot_tell("it was idle"), 0.9), None);
    }

    /// Users saw two commands, both labelled "Linux".
    #[test]
    fn every_script_names_a_place_of_its_own() {
        let need = Need {
            down: true,
            up: true,
        };
        let rates = (Some(20_000), Some(950));
        let all = [
            linux(rates.0, rates.1),
            openwrt(rates.0, rates.1),
            host(&need),
        ];
        let mut places: Vec<&str> = all.iter().map(|a| a.on.as_str()).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), all.len(), "{places:?}");
    }
}
