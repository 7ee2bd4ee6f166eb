//! `tailback serve`: the far end.

use super::{serve_keys, usage};
use crate::Outcome;
use base::Bytes;
use live::serve::{
    Budgets, Keys, Network, PortSet, ServeConfig, ServeError, Server, TlsError, TlsKey,
};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    about = "Be the far end of a test: answer probes, take uploads, give downloads",
    long_about = "Runs the far end of `tailback test` on one port, UDP and TCP. A client must show that it can receive at its \
        address before it gets anything, no answer is larger than its question, and each client has a budget, \
        so that the server is of no use to anybody who spoofs addresses. With keys, strangers get nothing at all.",
    after_help = "Examples:\n  tailback serve                        for anybody\n  tailback serve keys add anna --keys FILE    a key for anna, and the line for her\n  \
        tailback serve --keys FILE            for those with a key\n\n\
        Open the port in the firewall for UDP and TCP. Stop with Ctrl-C."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// File of the users who are served, a line "NAME KEY" for each key; read again when it changes [default: everybody is served]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Directory in which the server keeps its TLS key [default: $STATE_DIRECTORY, or tailback-serve below $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["tls_cert", "tls_key"])]
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
    /// Bytes that one client may move in an hour, both directions together [default: 100 GB]
    #[arg(long, value_name = "SIZE")]
    bytes_per_hour: Option<Bytes>,
    /// Bytes that all clients together may move in an hour [default: 1000 GB]
    #[arg(long, value_name = "SIZE")]
    total_bytes_per_hour: Option<Bytes>,
    /// Ports to open for clients for a while, such as 80,443,40000-40999, or "any"; `tailback probe nat`, `ports`, `ipv6`, `middlebox` and `check` need some [default: none]
    #[arg(long, value_name = "PORTS")]
    allow_listen: Option<PortSet>,
}

/// Directory of what the server keeps, where none is given.
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

fn tls(args: &Args) -> TlsKey {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        return TlsKey::Own {
            certificate: certificate.clone(),
            key: key.clone(),
        };
    }
    match args.state.clone().or_else(state_directory) {
        Some(directory) => TlsKey::KeptIn(directory),
        None => TlsKey::Fresh,
    }
}

/// Starts the server. Where its TLS key cannot be kept, it makes one for this run and says so.
fn start(mut config: ServeConfig, asked_for: bool) -> anyhow::Result<Server> {
    let started = match Server::start(config.clone()) {
        Err(ServeError::Tls(e @ TlsError::File { .. })) if !asked_for => {
            eprintln!("{e}. The TLS key is for this run only; --state DIRECTORY keeps one");
            config.tls = TlsKey::Fresh;
            Server::start(config)
        }
        other => other,
    };
    started.map_err(|e| match e {
        ServeError::Keys(e) => usage(e.to_string()),
        ServeError::Tls(e) => usage(e.to_string()),
        e => e.into(),
    })
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make, list and remove the keys of users
    Keys(serve_keys::Args),
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let Some(Command::Keys(args)) = args.command {
        return serve_keys::run(args);
    }
    live::signal::catch_interrupt();
    let usual = Budgets::default();
    let asked_for = args.state.is_some() || args.tls_only || args.tls_cert.is_some();
    let mut config = ServeConfig {
        tls: tls(&args),
        tls_only: args.tls_only,
        keys: args.keys.map(Keys::File),
        allow: args.allow,
        budgets: Budgets {
            clients: args.max_clients.max(1),
            bytes_per_hour: args.bytes_per_hour.unwrap_or(usual.bytes_per_hour),
            total_bytes_per_hour: args
                .total_bytes_per_hour
                .unwrap_or(usual.total_bytes_per_hour),
            ..usual
        },
        allow_listen: args.allow_listen.unwrap_or_default(),
        ..ServeConfig::default()
    };
    if !args.listen.is_empty() {
        config.listen = args.listen;
    }
    let open = config.keys.is_none();
    let server = start(config, asked_for)?;
    for address in server.local_addrs() {
        eprintln!(
            "listening on {address}, UDP and TCP{}",
            if open {
                "; open to anybody, within budgets"
            } else {
                "; for users with a key"
            }
        );
    }
    if let Some(pin) = server.pin() {
        eprintln!("public key, for --pin of clients: {pin}");
    }
    while !live::signal::interrupted() {
        std::thread::sleep(std::time::Duration::from_millis(200));
        for note in server.notes() {
            eprintln!("{note}");
        }
    }
    server.stop();
    Ok(Outcome::Done)
}
