//! Numbers of nl80211 against the kernel's header: Debian's linux-libc-dev. Skipped where that is not installed.

use measure::nl80211::{attribute, command, station, survey};
use std::collections::HashMap;

const HEADER: &str = "/usr/include/linux/nl80211.h";

/// Values of the enumerators of a header, by name. Those before an enumerator that is given by an expression are right.
fn enumerators(text: &str) -> HashMap<String, i64> {
    // Comments hold commas and names.
    let mut bare = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        bare.push_str(&rest[..at]);
        rest = rest[at..]
            .find("*/")
            .map_or("", |end| &rest[at + end + 2..]);
    }
    bare.push_str(rest);
    let mut all: HashMap<String, i64> = HashMap::new();
    for part in bare.split("enum ").skip(1) {
        let Some((_, body)) = part.split_once('{') else {
            continue;
        };
        let body = body.split('}').next().unwrap_or_default();
        let mut next = Some(0);
        for one in body.split(',') {
            let lines = one.lines().filter(|l| !l.trim_start().starts_with('#'));
            let one = lines.collect::<Vec<_>>().join(" ");
            let one = one.trim();
            let (name, value) = one.split_once('=').unwrap_or((one, ""));
            let value = value.trim();
            let known = all.get(value).copied().or_else(|| value.parse().ok());
            let own = if value.is_empty() { next } else { known };
            next = own.map(|n| n + 1);
            if let Some(own) = own.filter(|_| !name.is_empty()) {
                all.insert(name.trim().to_owned(), own);
            }
        }
    }
    all
}

#[test]
fn numbers_are_those_of_the_kernels_header() {
    let Ok(text) = std::fs::read_to_string(HEADER) else {
        println!("skipped: {HEADER} is not installed");
        return;
    };
    let all = enumerators(&text);
    let expected = [
        ("CMD_GET_INTERFACE", i64::from(command::GET_INTERFACE)),
        ("CMD_GET_STATION", i64::from(command::GET_STATION)),
        ("CMD_GET_SURVEY", i64::from(command::GET_SURVEY)),
        ("CMD_GET_POWER_SAVE", i64::from(command::GET_POWER_SAVE)),
        ("ATTR_IFINDEX", attribute::IFINDEX.into()),
        ("ATTR_IFNAME", attribute::IFNAME.into()),
        ("ATTR_IFTYPE", attribute::IFTYPE.into()),
        ("ATTR_MAC", attribute::MAC.into()),
        ("ATTR_STA_INFO", attribute::STA_INFO.into()),
        ("ATTR_WIPHY_FREQ", attribute::WIPHY_FREQ.into()),
        ("ATTR_SURVEY_INFO", attribute::SURVEY_INFO.into()),
        ("ATTR_PS_STATE", attribute::PS_STATE.into()),
        ("IFTYPE_STATION", 2),
        ("PS_ENABLED", 1),
        ("RATE_INFO_BITRATE", 1),
        ("RATE_INFO_BITRATE32", 5),
        ("TID_STATS_TXQ_STATS", 6),
        ("TXQ_STATS_BACKLOG_BYTES", 1),
        ("STA_INFO_TX_BITRATE", station::TX_BITRATE.into()),
        ("STA_INFO_SIGNAL", station::SIGNAL.into()),
        ("STA_INFO_TX_PACKETS", station::TX_PACKETS.into()),
        ("STA_INFO_TX_RETRIES", station::TX_RETRIES.into()),
        ("STA_INFO_TX_FAILED", station::TX_FAILED.into()),
        ("STA_INFO_RX_BITRATE", station::RX_BITRATE.into()),
        ("STA_INFO_BEACON_LOSS", station::BEACON_LOSS.into()),
        ("STA_INFO_TX_BYTES64", station::TX_BYTES64.into()),
        ("STA_INFO_TID_STATS", station::TID_STATS.into()),
        ("STA_INFO_RX_DURATION", station::RX_DURATION.into()),
        ("STA_INFO_TX_DURATION", station::TX_DURATION.into()),
        ("SURVEY_INFO_FREQUENCY", survey::FREQUENCY.into()),
        ("SURVEY_INFO_IN_USE", survey::IN_USE.into()),
        ("SURVEY_INFO_TIME", survey::TIME.into()),
        ("SURVEY_INFO_TIME_BUSY", survey::TIME_BUSY.into()),
        ("SURVEY_INFO_TIME_TX", survey::TIME_TX.into()),
    ];
    for (name, ours) in expected {
        assert_eq!(all.get(&format!("NL80211_{name}")), Some(&ours), "{name}");
    }
}
