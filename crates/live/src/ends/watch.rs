//! Capture of the first packet of a connection as it leaves.

use crate::sniff::Sniffer;
use base::noted::middlebox::Syn;
use experiment::middlebox::syn;

/// Ethernet header, IP header with options, TCP header with options.
const SNAPLEN: usize = 192;

/// Watches an interface for the first packet to a port.
pub(super) struct Watch {
    sniffer: Sniffer,
    port: u16,
}

impl Watch {
    /// Returns null if we may not capture there.
    pub fn start(interface: &str, port: u16) -> Option<Watch> {
        let sniffer = Sniffer::open(interface, SNAPLEN).ok()?;
        Some(Watch { sniffer, port })
    }

    /// The packet, if it has passed.
    pub fn first(mut self) -> Option<Syn> {
        let port = self.port;
        // Whatever has left has passed by now; a busy host hands it over a little later.
        self.sniffer.wait(200).ok()?;
        let mut found = None;
        loop {
            let more = self.sniffer.take(|passed| {
                let ip = match after_ethernet(passed.data) {
                    Some(ip) if passed.outgoing => ip,
                    _ => return,
                };
                if found.is_none() && syn::destination(ip) == Some(port) {
                    found = syn::read(ip);
                }
            });
            if !more {
                return found;
            }
        }
    }
}

/// The IP packet, where there is an Ethernet header before it.
fn after_ethernet(frame: &[u8]) -> Option<&[u8]> {
    match frame.get(12..14)? {
        [0x08, 0x00] | [0x86, 0xdd] => frame.get(14..),
        _ => Some(frame),
    }
}

/// TCP options that this host's settings put into every SYN.
pub(super) fn options() -> Vec<String> {
    let on = |key: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{key}"));
        text.is_ok_and(|t| t.trim() != "0")
    };
    let known = [
        ("tcp_sack", "sack"),
        ("tcp_timestamps", "timestamps"),
        ("tcp_window_scaling", "window scale"),
    ];
    let set = known.into_iter().filter(|(key, _)| on(key));
    set.map(|(_, name)| name.to_owned()).collect()
}
