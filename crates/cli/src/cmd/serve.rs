//! `tailback serve`: the far end.

use super::{serve_keys, usage};
use crate::Outcome;
use base::Bytes;
use live::serve::{Budgets, Keys, Network, PortSet, ServeConfig, ServeError, Server};
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
    let mut config = ServeConfig {
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
    let server = Server::start(config).map_err(|e| match e {
        ServeError::Keys(e) => usage(e.to_string()),
        e => e.into(),
    })?;
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
    while !live::signal::interrupted() {
        std::thread::sleep(std::time::Duration::from_millis(200));
        for note in server.notes() {
            eprintln!("{note}");
        }
    }
    server.stop();
    Ok(Outcome::Done)
}
