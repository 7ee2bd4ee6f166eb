//! `tailback load`: loads a link for the test of another machine.

use base::{Bytes, Duration};
use live::clock::Clock;
use live::load::{Access, Peer, lent};
use live::sockets::{Setup, Sockets};
use std::io::{Read, Write};
use std::sync::mpsc::channel;

/// Server that is loaded, and the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Server as the user names it.
    pub server: String,
    /// Upper limit on the payload of all loads.
    pub budget: Bytes,
    /// True to use one version of IP only.
    pub ipv4: bool,
    pub ipv6: bool,
}

/// Takes orders from `input` until it ends, and answers on `out`.
///
/// # Errors
/// A server that is not found, and output that nobody takes.
pub fn run(
    plan: &Plan,
    access: &Access,
    input: impl Read + Send + 'static,
    out: impl Write,
) -> anyhow::Result<()> {
    let port = measure::control::DEFAULT_PORT;
    let server = live::resolve::server(&plan.server, port, plan.ipv4, plan.ipv6)?;
    let peer = Peer {
        server,
        access: access.clone(),
        patience: Duration::from_secs(10),
    };
    let (rows, come) = channel();
    let host = Sockets::new(Setup::new(peer, Clock::start(), rows));
    Ok(lent::lend(host, (input, out), &come, plan.budget)?)
}
