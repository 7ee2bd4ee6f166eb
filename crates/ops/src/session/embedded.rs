//! Both ends on this machine, with emulated links between them.

use super::Session;
use base::BitsPerSec;
use link::LinkSpec;
use live::craft::Others;
use live::emulate::{self, Emulation, NetNs};
use live::serve::{ServeConfig, Server};
use std::net::SocketAddr;

/// Both ends on this machine, with emulated links between them.
pub(crate) struct Embedded<'l> {
    pub(crate) links: &'l [LinkSpec],
    /// True to put a router between one link and the next.
    pub(crate) routed: bool,
    pub(crate) v6: bool,
    /// Rate of random cross traffic on the uplink.
    pub(crate) cross_traffic: Option<BitsPerSec>,
    pub(crate) server: ServeConfig,
}

impl Embedded<'_> {
    /// Does the work in the near namespace. Returns the emulator's doubt about its figures, which the recording holds
    /// too.
    pub(crate) fn run<T: Send>(
        self,
        session: &Session,
        work: impl FnOnce(SocketAddr, &NetNs) -> T + Send,
    ) -> anyhow::Result<(T, Option<String>)> {
        let options = emulate::Options {
            rows: Some(session.recorder.rows.clone()),
            routed: self.routed,
            ..emulate::Options::new(session.clock)
        };
        let emulation = Emulation::start(self.links, options)?;
        let server = emulation.far().run(|| Server::start(self.server))??;
        let port = server.local_addr().port();
        let address: SocketAddr = match self.v6 {
            true => (emulate::FAR_V6, port).into(),
            false => (emulate::FAR_V4, port).into(),
        };
        let others = self
            .cross_traffic
            .map(|rate| Others::start(&emulation, rate, 1))
            .transpose()?;
        let result = emulation.near().run(|| work(address, emulation.far()))?;
        drop(others);
        server.stop();
        let summary = emulation.stop()?;
        // A host that was too busy to emulate the links makes every figure doubtful, so the recording says so.
        let doubt = summary.doubt().map(|doubt| doubt.to_string());
        if let Some(doubt) = &doubt {
            session.doubt("emulator", doubt);
        }
        Ok((result, doubt))
    }
}
