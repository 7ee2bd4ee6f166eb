//! Settings of `tailback monitor`.

use super::config::{Configured, Ip};
use base::{Bytes, Duration};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Interval between probes unless the user says otherwise.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Settings that a user gave, in a file or as options.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// Targets to probe.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
    /// Interval between probes, 1 ms to 1 h [default: 100 ms]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    #[command(flatten)]
    #[serde(flatten)]
    pub ip: Ip,
    /// Interface whose traffic and availability are recorded, and that the probes are bound to; through each of several,
    /// such as modems, every target is probed [default: the interface towards the first target]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Vec<String>>,
    /// Interval between readings of the interface's counters [default: 100 ms]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_interval: Option<Duration>,
    /// Time after which an unanswered probe is lost; an answer after that is recorded as late [default: 10 s]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_after: Option<Duration>,
    /// Interval at which rows are written to disk: a power cut costs at most this much [default: 500 ms]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<Duration>,
    /// Thin old detail if less than this is left on the disk [default: 5 % of it, at most 1 GB]
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_free: Option<Bytes>,
    /// Thin old detail if the recording is larger than this
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Bytes>,
    /// Name of the recording in reports
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Recording to write; an existing one is continued [default: monitor.rec]
    #[arg(short, long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// Stop after this time
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Command to run when a target stops answering, and when it answers steadily again. It finds the target in
    /// $TAILBACK_TARGET, `down` or `up` in $TAILBACK_STATE, and the silence in $TAILBACK_SECONDS. The book has the words of
    /// --alert-delay and --alert-loss
    #[arg(long, value_name = "CMD")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_outage: Option<String>,
    /// Address to which the same is posted as JSON, by curl(1)
    #[arg(long, value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Address to which the same is mailed, by sendmail(8)
    #[arg(long, value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail: Option<String>,
    /// Silence that is an outage, and time of answers that ends it [default: 10 s, and 10 intervals at least]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_after: Option<Duration>,
    /// Alert if 5 % of a minute's round trips are at least this long; over at three quarters of it
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_delay: Option<Duration>,
    /// Alert if at least this share of a minute's probes is lost; over at half of it
    #[arg(long, value_name = "PERCENT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_loss: Option<f64>,
    /// Command to run beside the monitor: each line that it prints marks a moment of the recording with that text
    #[arg(long, value_name = "CMD")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_on: Option<String>,
    /// Command that prints the state of the modem: key=value or JSON, with the keys rate_down, rate_up, margin_down,
    /// margin_up, attenuation_down, attenuation_up, crc_down, crc_up, fec_down and fec_up, and for a radio interface,
    /// technology, cell, operator, rssi, rsrp, snr and quality
    #[arg(long, value_name = "CMD")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modem_cmd: Option<String>,
    /// Interval at which --modem-cmd runs [default: 30 s]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modem_every: Option<Duration>,
    /// Interval between readings of the radios: Wi-Fi, and cellular modems that ModemManager knows; 0s for none [default: 10 s]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radio_every: Option<Duration>,
    /// File to write the state to, in Prometheus' text format, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<PathBuf>,
    /// Address on which to serve the page, its live state, and /metrics for Prometheus, such as 127.0.0.1:8117
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<SocketAddr>,
    /// Token that readers of --web need [default: none on a loopback address, elsewhere a random one, which is printed]
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_token: Option<String>,
}

impl Configured for Settings {
    const VERB: &'static str = "monitor";
    const KEYS: &'static [(&'static str, &'static str)] =
        &[("targets", "Targets to probe, such as [\"far.example\"]")];
    const DEFAULTS: &'static [&'static str] =
        &["100 ms", "10 s", "500 ms", "30 s", "10 s", "monitor.rec"];
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};

    fn options(args: &[&str]) -> Settings {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            settings: Settings,
        }
        let args = std::iter::once("x").chain(args.iter().copied());
        let matches = Only::command().try_get_matches_from(args).expect("options");
        Only::from_arg_matches(&matches).expect("settings").settings
    }

    #[test]
    fn an_option_precedes_the_file_and_the_file_the_default() {
        let file: Settings = toml::from_str(
            "targets = ['far.example']\ninterval = '1s'\nflush = '2s'\nipv4 = true\nweb = '127.0.0.1:8117'\n",
        )
        .expect("a file");
        let all = options(&["--interval", "50ms"]).over(&file);
        assert_eq!(all.interval, Some(Duration::from_millis(50)));
        assert_eq!(all.flush, Some(Duration::from_secs(2)));
        assert_eq!((all.ip.ipv4, all.ip.ipv6), (Some(true), None));
        assert_eq!(
            all.targets.as_deref(),
            Some(&["far.example".to_owned()][..])
        );
        assert_eq!(all.lost_after, None);
        let six = options(&["-6"]).over(&all);
        assert_eq!((six.ip.ipv4, six.ip.ipv6), (None, Some(true)));
    }

    /// The printed file says the same as the options and the file that it was printed for.
    #[test]
    fn the_printed_settings_are_read_as_they_were_given() {
        let file: Settings =
            toml::from_str("interface = ['eth0', 'eth1']\nmail = 'a@b'\n").expect("a file");
        let targets = ["icmp:192.0.2.1,1s".to_owned()];
        let given = options(&[
            "--on-outage",
            "echo \"$TAILBACK_TARGET\" # \\",
            "--max-size",
            "2 GB",
            "-6",
        ]);
        let given = Settings {
            targets: Some(targets.to_vec()),
            ..given
        };
        let text = given.printed(Some(&file)).expect("printed");
        let read: Settings = toml::from_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let wanted = given.over(&file);
        assert_eq!(read.targets.as_deref(), Some(&targets[..]));
        assert_eq!(read.on_outage, wanted.on_outage);
        assert_eq!(read.max_size, wanted.max_size);
        assert_eq!(read.interface, wanted.interface);
        assert_eq!(read.mail, wanted.mail);
        assert_eq!(read.ip.ipv6, Some(true));
        assert_eq!(read.interval, Some(INTERVAL));
        assert!(text.contains("mail = \"a@b\" # from the file"), "{text}");
        assert!(toml::from_str::<Settings>("intervall = '1s'").is_err());
    }
}
