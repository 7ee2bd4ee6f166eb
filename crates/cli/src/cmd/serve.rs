//! `tailback serve`: the server.

use super::serve_keys;
use crate::Outcome;
use crate::console::Console;
use anyhow::Context;
use base::{BitsPerSec, Bytes};
use live::privileges;
use live::serve::journal::Entry;
use live::serve::{
    Authority, Budgets, Guest, MAX_UDP_RATE, Network, PortSet, Protocol, SiteName, WebGuests,
};
use ops::serve::{Acme, KEEP_SIZE, Plan, Tls, Web};
use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    about = "Run the server: answer probes, receive uploads, send downloads",
    long_about = "Runs the server for `tailback test` and the other commands on one port, UDP and TCP. A client must prove that it \
        receives at its address before it gets data. No answer is larger than its question, and each client has a budget. \
        So the server is useless to attackers who spoof addresses. With keys, it serves users with a key only.",
    after_help = "Examples:\n  tailback serve\n  tailback serve keys add anna --keys FILE\n  \
        tailback serve --keys FILE\n  tailback serve --web\n\n\
        Without --keys it serves everybody.\n\
        Open the port in the firewall for UDP and TCP. Stop with Ctrl-C."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// File of the users who are served, a line "NAME KEY" for each key; read again when it changes and on SIGHUP [default: everybody is served]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Directory in which the server keeps its TLS key, and certificates of --acme [default: $STATE_DIRECTORY, or tailback-serve below $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<PathBuf>,
    /// Certificate of your own (PEM), instead of one that the server makes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse clients whose control messages are not inside TLS 1.3
    #[arg(long)]
    tls_only: bool,
    /// Serve clients of this network only, such as 192.0.2.0/24; may be repeated [default: all]
    #[arg(long, value_name = "NETWORK")]
    allow: Vec<Network>,
    /// Clients served at once
    #[arg(long, value_name = "COUNT", default_value_t = Budgets::default().clients)]
    max_clients: usize,
    /// Bytes that one client may move in an hour, both directions combined [default: 100 GB]
    #[arg(long, value_name = "SIZE")]
    bytes_per_hour: Option<Bytes>,
    /// Bytes that all clients together may move in an hour [default: 1000 GB]
    #[arg(long, value_name = "SIZE")]
    total_bytes_per_hour: Option<Bytes>,
    /// Ports to open for clients for a while, such as 80,443,40000-40999, or "any"; `tailback probe nat`, `ports`, `ipv6`, `middlebox`, `ecn`, `l4s`, `nqb`, `quic` and `check` need some [default: none]
    #[arg(long, value_name = "PORTS")]
    allow_listen: Option<PortSet>,
    /// Capture for a client the TCP packets between it and this server, without their payload: `tailback test --capture`
    #[arg(long)]
    allow_capture: bool,
    /// Upper limit on the rate of all that the server sends and asks for, both directions combined [default: none]
    #[arg(long, value_name = "RATE")]
    max_rate: Option<BitsPerSec>,
    /// Upper limit on the sum of all UDP load and trains
    #[arg(long, value_name = "RATE", default_value_t = MAX_UDP_RATE)]
    max_udp_rate: BitsPerSec,
    /// Answer irtt's clients, SmokePing and flent among them [default of ADDRESS:PORT: [::]:2112]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    irtt: Option<Option<SocketAddr>>,
    /// Answer clients of STAMP (RFC 8762) and TWAMP-Light: ten packets a second of one network, or 2,000 of those that --allow names [default of ADDRESS:PORT: [::]:862]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    stamp: Option<Option<SocketAddr>>,
    /// Take tests of iperf3's client over TCP, one client at a time [default of ADDRESS:PORT: [::]:5201]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    iperf3: Option<Option<SocketAddr>>,
    /// Offer the test to browsers on a page, over HTTPS, or HTTP at a loopback address [default of ADDRESS:PORT: [::]:8443]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, value_parser = web_address)]
    web: Option<Option<SocketAddr>>,
    /// Certificate of the page (PEM), instead of one that the server makes and browsers warn of
    #[arg(long, value_name = "FILE", requires = "web", requires = "web_key")]
    web_cert: Option<PathBuf>,
    /// Private key of --web-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "web_cert")]
    web_key: Option<PathBuf>,
    /// Get the certificate of the page from this authority, by ACME, and renew it: letsencrypt, letsencrypt-staging or the https address of its directory; it connects to port 443 of each name
    #[arg(long, value_name = "AUTHORITY", requires_all = ["web", "web_name"], conflicts_with = "web_cert")]
    acme: Option<Authority>,
    /// Name or address under which browsers reach the page; may be repeated
    #[arg(long, value_name = "NAME", requires = "acme")]
    web_name: Vec<SiteName>,
    /// Agree to the terms of service of that authority, which the server names when it asks for its account
    #[arg(long, requires = "acme")]
    acme_agree: bool,
    /// Address for that authority's messages, such as mailto:anna@example.org
    #[arg(long, value_name = "ADDRESS", requires = "acme")]
    acme_contact: Option<String>,
    /// Trust a private authority, a PEM file, for the certificate of that directory
    #[arg(long, value_name = "FILE", requires = "acme")]
    acme_ca: Option<PathBuf>,
    /// Keep the recordings that users of the page save in this directory [default: none is kept]
    #[arg(long, value_name = "DIRECTORY", requires = "web")]
    web_keep: Option<PathBuf>,
    /// Size of that directory above which no more are kept [default: 1 GB]
    #[arg(long, value_name = "SIZE", requires = "web_keep")]
    web_keep_size: Option<Bytes>,
    /// Take tests of clients of responsiveness, such as networkQuality, at the page's port: https://HOST:8443/.well-known/nq
    #[arg(long, requires = "web")]
    rpm: bool,
    /// Take tests of clients of ndt7 at the page's port
    #[arg(long, requires = "web")]
    ndt7: bool,
    /// Write one line for each session that ends and each refusal to standard output
    #[arg(long, value_name = "FORMAT")]
    log: Option<LogFormat>,
    /// Print addresses, ports and public key as JSON once it serves
    #[arg(long, conflicts_with = "log")]
    json: bool,
    /// Write counters for Prometheus to this file every ten seconds (textfile collector of node_exporter)
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// User to become once the ports are open, if started as root
    #[arg(long, value_name = "NAME", default_value = "nobody")]
    user: String,
}

/// Reads an address; a port alone, such as `:8443`, stands for all addresses.
fn web_address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => text.to_owned(),
    };
    whole
        .parse()
        .map_err(|_| "expected ADDRESS:PORT, or :PORT for all addresses".to_owned())
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make, list and remove the keys of users
    Keys(serve_keys::Args),
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum LogFormat {
    Json,
}

/// Usual port of the page for browsers.
const WEB_PORT: u16 = 8443;
/// Log entries that may wait for the reader of standard output.
const LOG_WAITS: usize = 256;

/// Starts the thread that writes the log. Nothing waits for it: a reader that stands still holds up only this thread.
fn write_log(entries: Receiver<Entry>) -> anyhow::Result<()> {
    let write = move || {
        for entry in entries {
            let line = serde_json::to_string(&entry).unwrap_or_default();
            // Nobody reads any more: the log is over, the server is not.
            if super::print(&format!("{line}\n")).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("log".into())
        .spawn(write)
        .context("cannot start a thread for the log")?;
    Ok(())
}

/// Default directory of the state of the server.
fn state_directory() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    set("STATE_DIRECTORY")
        .or_else(|| set("XDG_STATE_HOME").map(|d| d.join("tailback-serve")))
        .or_else(|| set("HOME").map(|d| d.join(".local/state/tailback-serve")))
}

fn tls(args: &Args) -> Tls {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        return Tls::Own {
            certificate: certificate.clone(),
            key: key.clone(),
        };
    }
    match args.state.clone().or_else(state_directory) {
        Some(directory) => Tls::Kept {
            directory,
            required: args.state.is_some() || args.tls_only,
        },
        None => Tls::Fresh,
    }
}

fn acme(authority: Authority, args: &Args) -> anyhow::Result<Acme> {
    let state = args.state.clone().or_else(state_directory);
    let state = state.context("--acme: name a directory for the certificate by --state")?;
    Ok(Acme {
        authority,
        names: args.web_name.clone(),
        agreed: args.acme_agree,
        contact: args.acme_contact.clone(),
        ca: args.acme_ca.clone(),
        state: state.join("acme"),
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let Some(Command::Keys(args)) = args.command {
        return serve_keys::run(args);
    }
    let guest = |protocol: Protocol, asked: Option<Option<SocketAddr>>| {
        asked.map(|listen| Guest {
            protocol,
            listen: listen.unwrap_or(protocol.usual()),
        })
    };
    let guests = [
        (Protocol::Irtt, args.irtt),
        (Protocol::Stamp, args.stamp),
        (Protocol::Iperf3, args.iperf3),
    ];
    if args.state.is_some() && args.tls_cert.is_some() && args.acme.is_none() {
        return Err(ops::usage(
            "--state: with --tls-cert and without --acme there is nothing to keep",
        ));
    }
    let usual = Plan::default();
    let acme = args.acme.clone().map(|authority| acme(authority, &args));
    let acme = acme.transpose()?;
    let plan = Plan {
        tls: tls(&args),
        listen: args.listen,
        keys: args.keys,
        tls_only: args.tls_only,
        allow: args.allow,
        max_clients: args.max_clients,
        bytes_per_hour: args.bytes_per_hour.unwrap_or(usual.bytes_per_hour),
        total_bytes_per_hour: args
            .total_bytes_per_hour
            .unwrap_or(usual.total_bytes_per_hour),
        allow_listen: args.allow_listen,
        allow_capture: args.allow_capture,
        max_rate: args.max_rate,
        max_udp_rate: args.max_udp_rate,
        guests: (guests.into_iter())
            .filter_map(|(protocol, asked)| guest(protocol, asked))
            .collect(),
        web: args.web.map(|listen| Web {
            listen: listen.unwrap_or_else(|| (Ipv6Addr::UNSPECIFIED, WEB_PORT).into()),
            certificate: args.web_cert.zip(args.web_key),
            acme,
            keep: args.web_keep,
            keep_size: args.web_keep_size.unwrap_or(KEEP_SIZE),
            guests: WebGuests {
                rpm: args.rpm,
                ndt7: args.ndt7,
            },
        }),
        metrics: args.metrics,
        user: args.user,
    };
    carry_out(&plan, args.log, args.json)
}

/// Serves until somebody interrupts it.
pub fn carry_out(plan: &Plan, log: Option<LogFormat>, json: bool) -> anyhow::Result<Outcome> {
    crate::face::only_as_a_process("serve")?;
    live::signal::catch_interrupt();
    // At a terminal it is the terminal's end.
    if !std::io::stderr().is_terminal() {
        live::signal::catch_hangup();
    }
    privileges::confine().context("cannot limit the rights of this process")?;
    let (to, entries) = std::sync::mpsc::sync_channel(LOG_WAITS);
    let serving = ops::serve::start(plan, log.map(|LogFormat::Json| to))?;
    // Threads that start now have no more rights than the server.
    if log.is_some() {
        write_log(entries)?;
    }
    if json {
        super::print_json(&serving.started())?;
    }
    serving.run(&mut Console::new())?;
    Ok(Outcome::Done)
}
