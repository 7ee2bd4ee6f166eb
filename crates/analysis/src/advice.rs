//! Advice: settings against a long queue, as commands that can be pasted.
//!
//! **Method.** A queue that is too long is replaced by one that we own. A shaper a little below the link's rate moves
//! the queue to a router, where a modern discipline keeps it short. It is set to 95 % of the measured rate up and to 90
//! % down: there it stands behind the bottleneck and must leave it room to drain. If the router cannot be configured,
//! the hosts' own buffers and pacing help their own traffic.
//!
//! **Source.** RFC 8290 (FQ-CoDel), RFC 7567 (recommendation for AQM); tc-cake(8), OpenWrt sqm-scripts;
//! Catalán 2014, chapter 8.
//!
//! **Limits.** Measured rates count IP packets. A shaper that counts ATM cells or PTM bytes needs the rate of the wire:
//! the comments give it for packets of 1500 bytes. The user has to name the interfaces.

use crate::answer::{Advice, DirectionAnswer, Discipline};
use crate::rate;
use base::record::Direction;

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
    let kbit = |d: &DirectionAnswer, share: f64| {
        d.link_rate_bps
            .value()
            .map(|r| ((r * share / 1e3).round() as u64).max(1))
    };
    let steady = list.is_empty();
    let up_kbit = kbit(up, 0.95).filter(|_| need.up && steady);
    let down_kbit = kbit(down, 0.90).filter(|_| need.down && steady);
    if up_kbit.is_none() && down_kbit.is_none() {
        if !list.is_empty() {
            list.push(host(need));
        }
        return list;
    }
    list.push(linux(down_kbit, up_kbit));
    list.push(fq_codel(down_kbit, up_kbit));
    list.push(openwrt(down_kbit, up_kbit));
    if let Some(a) = buffer(need, down, up) {
        list.push(a);
    }
    list.push(host(need));
    list
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
    })
}

/// Bytes on the wire of an ATM link for an IP packet of 1500 bytes with 44 bytes of overhead: 33 cells of 53 bytes.
const ATM_BYTES: u64 = 1_749;
/// Bytes on the wire of a PTM link for the same packet: 30 bytes of overhead, and one byte in 65 for PTM itself.
const PTM_BYTES: u64 = 1_554;

/// Rate to configure where the shaper counts framing overhead, so that the shaped IP rate stays the same.
fn framed(kbit: u64, wire_bytes: u64) -> u64 {
    kbit * wire_bytes / 1_500
}

fn rates(down: Option<u64>, up: Option<u64>) -> String {
    let part = |kbit: Option<u64>, name: &str| kbit.map(|k| format!("{k} kbit/s {name}"));
    [part(up, "up"), part(down, "down")]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" and ")
}

const NAME: &str = "WAN=eth0   # the interface towards the modem";

fn ingress() -> Vec<String> {
    [
        "ip link add ifb-wan type ifb",
        "ip link set ifb-wan up",
        "tc qdisc replace dev $WAN ingress",
        "tc filter replace dev $WAN ingress matchall action mirred egress redirect dev ifb-wan",
    ]
    .map(String::from)
    .to_vec()
}

fn linux(down: Option<u64>, up: Option<u64>) -> Advice {
    let mut commands = vec![NAME.to_string()];
    if let Some(kbit) = up {
        commands.push(format!(
            "tc qdisc replace dev $WAN root cake bandwidth {kbit}kbit nat ack-filter   # ADSL: bandwidth {}kbit overhead 44 atm; VDSL: bandwidth {}kbit overhead 30 ptm",
            framed(kbit, ATM_BYTES),
            framed(kbit, PTM_BYTES)
        ));
    }
    if let Some(kbit) = down {
        commands.extend(ingress());
        commands.push(format!(
            "tc qdisc replace dev ifb-wan root cake bandwidth {kbit}kbit nat ingress"
        ));
    }
    Advice {
        what: format!(
            "On a Linux router, shape to {} with CAKE, so that the queue stands where it is kept short and fair",
            rates(down, up)
        ),
        on: "Linux".into(),
        commands,
    }
}

fn fq_codel(down: Option<u64>, up: Option<u64>) -> Advice {
    let mut commands = vec![NAME.to_string()];
    let mut shape = |dev: &str, kbit: u64| {
        commands.push(format!(
            "tc qdisc replace dev {dev} root handle 1: htb default 1"
        ));
        commands.push(format!(
            "tc class replace dev {dev} parent 1: classid 1:1 htb rate {kbit}kbit ceil {kbit}kbit"
        ));
        // A packet must fit in the target: RFC 8290 section 5.2.1 asks for one packet's time at least.
        let target_ms = (1514.0 * 8.0 / kbit as f64).max(5.0).ceil();
        commands.push(format!("tc qdisc replace dev {dev} parent 1:1 fq_codel target {target_ms}ms interval {}ms quantum 300", (target_ms * 20.0).max(100.0)));
    };
    if let Some(kbit) = up {
        shape("$WAN", kbit);
    }
    if let Some(kbit) = down {
        shape("ifb-wan", kbit);
        let at = 1 + 3 * usize::from(up.is_some());
        commands.splice(at..at, ingress());
    }
    Advice {
        what: format!(
            "Where the kernel lacks CAKE: FQ-CoDel below a shaper of {}",
            rates(down, up)
        ),
        on: "Linux".into(),
        commands,
    }
}

fn openwrt(down: Option<u64>, up: Option<u64>) -> Advice {
    // sqm-scripts: 0 leaves a direction unshaped.
    let commands = vec![
        "opkg update && opkg install sqm-scripts   # or: apk add sqm-scripts".to_string(),
        "uci -q delete sqm.@queue[0]; uci add sqm queue".into(),
        "uci set sqm.@queue[0].interface=$(uci get network.wan.device)".into(),
        format!("uci set sqm.@queue[0].download={}", down.unwrap_or(0)),
        format!("uci set sqm.@queue[0].upload={}", up.unwrap_or(0)),
        "uci set sqm.@queue[0].qdisc=cake; uci set sqm.@queue[0].script=piece_of_cake.qos".into(),
        format!(
            "uci set sqm.@queue[0].enabled=1   # ADSL: also linklayer=atm overhead=44 download={} upload={}",
            framed(down.unwrap_or(0), ATM_BYTES),
            framed(up.unwrap_or(0), ATM_BYTES)
        ),
        "uci commit sqm && /etc/init.d/sqm enable && /etc/init.d/sqm restart".into(),
    ];
    Advice {
        what: format!("On OpenWrt, the same through SQM: {}", rates(down, up)),
        on: "OpenWrt".into(),
        commands,
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
    })
}

fn host(need: &Need) -> Advice {
    let mut commands = Vec::new();
    if need.up {
        commands.push("sysctl -w net.core.default_qdisc=fq net.ipv4.tcp_congestion_control=bbr   # paces this host's uploads".into());
        commands.push("sysctl -w net.ipv4.tcp_notsent_lowat=131072".into());
    }
    if need.down {
        commands.push("sysctl -w net.ipv4.tcp_rmem='4096 65536 262144'   # bounds how much a sender may have under way to this host".into());
    }
    Advice { what: "Where nothing but this host can be set: make its own transfers fill the queue less; it does not help against other hosts".into(), on: "Linux".into(), commands }
}
