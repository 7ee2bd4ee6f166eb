//! State of a cellular modem as ModemManager's `mmcli` prints it with `-K`: `key : value` lines, `--` for what is unknown.

use super::{DBM, SNR, word};
use base::record::Radio;
use std::collections::BTreeMap;

/// Key at which the text of the next modem begins.
const BEGIN: &str = "modem.dbus-path";
/// States in which a modem is registered with a network.
const REGISTERED: [&str; 4] = ["registered", "connecting", "connected", "disconnecting"];
/// Signals, of the newest technology first: name, key of the reference signal's power, and of the signal-to-noise ratio.
const SIGNALS: [(&str, &str, &str); 6] = [
    ("5g", "rsrp", "snr"),
    ("lte", "rsrp", "snr"),
    ("umts", "rscp", ""),
    ("evdo", "", "sinr"),
    ("cdma1x", "", ""),
    ("gsm", "", ""),
];
/// Unknown values.
const UNKNOWN: [&str; 2] = ["--", ""];

type Values<'t> = BTreeMap<&'t str, &'t str>;

/// Readings of all modems in the text of `mmcli -m MODEM`, `--signal-get`, `--location-get` and `mmcli -b BEARER`, for one
/// modem after the other.
pub fn read(t_ns: i64, lines: &[String]) -> Vec<Radio> {
    let mut modems: Vec<Values<'_>> = Vec::new();
    for line in lines {
        let Some((key, value)) = line.split_once(" : ") else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if key == BEGIN {
            modems.push(Values::new());
        }
        if let Some(values) = modems.last_mut()
            && !UNKNOWN.contains(&value)
        {
            // The connected bearer counts; the first value of a key is kept.
            values.entry(key).or_insert(value);
        }
    }
    modems.iter().map(|v| reading(t_ns, v)).collect()
}

fn reading(t_ns: i64, v: &Values<'_>) -> Radio {
    let mut row = Radio::at(t_ns, &interface(v));
    let state = v.get("modem.generic.state");
    if !state.is_some_and(|s| REGISTERED.contains(s)) {
        return row;
    }
    let technologies = listed(v, "modem.generic.access-technologies");
    row.technology = word(&technologies.join("+")).map(Into::into);
    row.operator = v
        .get("modem.3gpp.operator-name")
        .and_then(|name| word(name))
        .map(Into::into);
    row.cell = cell(v).map(Into::into);
    let number = |key: &str, range: std::ops::RangeInclusive<f64>| {
        let value: Option<f64> = v.get(key).and_then(|text| text.parse().ok());
        value.filter(|value| range.contains(value))
    };
    // A modem may not have measured its signal for a while.
    if v.get("modem.generic.signal-quality.recent") != Some(&"no") {
        row.quality_percent = number("modem.generic.signal-quality.value", 0.0..=100.0);
    }
    for (name, power, noise) in SIGNALS {
        let of = |key: &str| format!("modem.signal.{name}.{key}");
        let (rsrp, rssi) = (number(&of(power), DBM), number(&of("rssi"), DBM));
        if rsrp.is_some() || rssi.is_some() {
            (row.rsrp_dbm, row.rssi_dbm) = (rsrp, rssi);
            row.snr_db = number(&of(noise), SNR);
            break;
        }
    }
    row
}

/// Name of the network interface: the connected bearer's, else the modem's only one, else its control port.
fn interface(v: &Values<'_>) -> String {
    let ports = listed(v, "modem.generic.ports");
    let mut nets = ports.iter().filter_map(|p| p.strip_suffix(" (net)"));
    let net = nets.next().filter(|_| nets.next().is_none());
    let bearer = v.get("bearer.status.interface").copied();
    let name = bearer
        .or(net)
        .or(v.get("modem.generic.primary-port").copied());
    name.and_then(word).unwrap_or_default()
}

/// Values of a list, such as `KEY.value[1]`.
fn listed<'t>(v: &Values<'t>, key: &str) -> Vec<&'t str> {
    let begin = format!("{key}.value[");
    let inside = v.iter().filter(|(k, _)| k.starts_with(&begin));
    inside.map(|(_, value)| *value).collect()
}

/// Country, network, area and cell.
fn cell(v: &Values<'_>) -> Option<String> {
    let of = |key: &str| v.get(&*format!("modem.location.3gpp.{key}")).copied();
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let cell = of("cid").and_then(hexadecimal).filter(|cell| *cell > 0)?;
    // LTE and 5G have tracking areas, GSM and UMTS location areas; FFFE stands for none.
    let area = |key: &str| {
        of(key)
            .and_then(hexadecimal)
            .filter(|a| *a > 0 && *a != 0xFFFE)
    };
    let area = area("tac").or(area("lac")).unwrap_or(0);
    let network = [of("mcc")?, of("mnc")?].map(|text| word(text).unwrap_or_default());
    word(&format!("{}-{}-{area:X}-{cell:X}", network[0], network[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    /// Printed by mmcli 1.20.4 for a modem that stands on the bus in place of a real one.
    const PRINTED: &str = include_str!("mmcli.txt");

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_state_of_a_connected_modem_is_read() {
        let want = Radio {
            technology: Some("lte+5gnr".into()),
            cell: Some("001-01-D1-1A2B3".into()),
            operator: Some("TheOperator".into()),
            rsrp_dbm: Some(-101.0),
            snr_db: Some(4.5),
            quality_percent: Some(70.0),
            ..Radio::at(9, "wwan0")
        };
        assert_eq!(read(9, &lines(PRINTED)), [want]);
    }

    #[test]
    fn older_technologies_lost_networks_and_second_modems_are_told_apart() {
        let lte = PRINTED.replace("-101.00", "--").replace("-12.00", "--");
        assert_eq!(read(0, &lines(&lte))[0].rsrp_dbm, Some(-98.0));
        assert_eq!(read(0, &lines(&lte))[0].rssi_dbm, Some(-67.0));
        let lost = PRINTED.replace(": connected", ": searching");
        assert_eq!(read(0, &lines(&lost)), [Radio::at(0, "wwan0")]);
        let old = PRINTED.replace("recent             : yes", "recent             : no");
        assert_eq!(read(0, &lines(&old))[0].quality_percent, None);
        let second = PRINTED.replace("wwan0", "wwan1");
        let both = read(0, &lines(&format!("{PRINTED}{second}")));
        let names: Vec<&str> = both.iter().map(|r| &*r.interface).collect();
        assert_eq!(names, ["wwan0", "wwan1"]);
        let idle = PRINTED.replace("interface                  : wwan0", "interface : --");
        assert_eq!(&*read(0, &lines(&idle))[0].interface, "wwan0");
    }

    /// Random damage to the text: no panic, and only values in range, without control characters.
    #[test]
    fn damaged_text_gives_values_in_range_or_none() {
        let all = lines(PRINTED);
        let pieces = [
            "--",
            "\u{1b}[2J",
            "NaN",
            "1e308",
            "-9999",
            "FFFFFFFFFFFFFFFFF",
            "é",
            " : ",
        ];
        for seed in 0..3000 {
            let mut rng = Streams::new(seed).stream("mmcli");
            let mut draw = |n: usize| (uniform(&mut rng) * n as f64) as usize;
            let mut text = all.clone();
            for _ in 0..=draw(20) {
                let at = draw(text.len());
                let line = &text[at];
                let cut = draw(line.len() + 1);
                let kept = if line.is_char_boundary(cut) {
                    &line[..cut]
                } else {
                    ""
                };
                text[at] = format!("{kept}{}", pieces[draw(pieces.len())]);
            }
            for row in read(0, &text) {
                let texts = [
                    Some(&row.interface),
                    row.technology.as_ref(),
                    row.cell.as_ref(),
                ];
                for t in texts.into_iter().flatten() {
                    assert!(!t.chars().any(char::is_control), "seed {seed}: {t:?}");
                }
                let powers = [row.rsrp_dbm, row.rssi_dbm].into_iter().flatten();
                assert!(powers.into_iter().all(|p| DBM.contains(&p)), "seed {seed}");
                assert!(row.snr_db.is_none_or(|s| SNR.contains(&s)));
                assert!(
                    row.quality_percent
                        .is_none_or(|q| (0.0..=100.0).contains(&q))
                );
            }
        }
    }
}
