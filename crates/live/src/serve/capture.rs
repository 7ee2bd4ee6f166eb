//! Captures for clients: the TCP packets between one client and this server's port, without their payload.
//!
//! One at a time, within a bound on memory; what has no room is counted. Others behind the client's own address are in it too.

use super::Shared;
use super::connection::{accept, finish, refuse};
use super::line::{Heard, Line};
use super::listeners::canonical;
use super::quota::{Permit, Use};
use crate::clock::mono_ns;
use crate::load::pump::End;
use crate::sniff::{Passed, Sniffer, Taking};
use base::Duration;
use base::record::Direction;
use measure::capture::frame::{self, Frame, Transport};
use measure::capture::{LinkType, Record};
use measure::control::packets::{CapturedPacket, CapturedPackets, MOST_HEADERS, MOST_PACKETS};
use measure::control::{Ended, FlowSpec, Refusal, Response, read_finished};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// Bytes of each packet that the kernel hands over: link layer, tags, and headers with all options.
const SNAPLEN: usize = 160;
/// Memory shared with the kernel, for packets that come while this program sleeps.
const RING: usize = 4 << 20;
/// Most memory of a capture, bytes: some 150,000 packets.
const MOST_KEPT: usize = 16 << 20;
/// Memory of a packet beside its headers, bytes.
const EACH: usize = size_of::<CapturedPacket>();
/// Longest capture.
const LONGEST: Duration = Duration::from_secs(1200);
/// Time within which a part of the capture has to be taken, even over GPRS.
const TAKEN_WITHIN_NS: i64 = 120_000_000_000;
const WAIT_MS: u16 = 50;
/// Packets taken before the client is listened to.
const AT_ONCE: usize = 4096;

/// Serves one such request to its end.
pub fn serve(stream: &Line, permit: &Permit, spec: &FlowSpec, shared: &Shared) -> io::Result<()> {
    if !shared.allow_capture {
        let text = "this server captures nothing: its operator can allow it with `tailback serve --allow-capture`";
        return refuse(stream, (Refusal::Forbidden, text.into()), shared);
    }
    let Ok(_only) = shared.capturing.try_lock() else {
        let text = "this server captures for another client: try again in a minute";
        return refuse(stream, (Refusal::Busy, text.into()), shared);
    };
    let mut flow = match shared.quota.flow(permit, spec, Direction::Up, Use::Capture) {
        Ok(f) => f,
        Err(e) => return refuse(stream, e, shared),
    };
    let (here, peer) = (canonical(stream.local_addr()?), stream.peer_addr()?.ip());
    let ends = (here, peer.to_canonical());
    let opened = interface_of(here.ip()).and_then(|name| {
        let taking = Taking {
            snaplen: SNAPLEN,
            ring: RING,
            others: false,
        };
        Sniffer::taking(&name, &taking).map_err(|e| e.to_string())
    });
    let sniffer = match opened {
        Ok(sniffer) => sniffer,
        Err(why) => {
            let text = format!("at the server, {why}");
            return refuse(stream, (Refusal::Failed, text), shared);
        }
    };
    let (began, _) = accept(stream, &flow, "", 0, shared)?;
    let until = began + spec.duration.min(LONGEST).as_nanos() as i64;
    let mut kept = Kept::default();
    let end = kept.fill(sniffer, ends, stream, until, shared)?;
    if !matches!(end, End::Enough) {
        return finish(stream, &flow, &end, shared);
    }
    let mut packets = std::mem::take(&mut kept.packets).into_iter();
    let mut sent = 0;
    loop {
        let part: Vec<CapturedPacket> = packets.by_ref().take(MOST_PACKETS).collect();
        let more = packets.len() > 0;
        let answer = Response::Packets(CapturedPackets {
            packets: part,
            more,
            missed: kept.missed,
        });
        let bytes = stream.say(&answer, mono_ns() + TAKEN_WITHIN_NS, shared)?;
        let counter = &shared.counters.bytes_sent;
        counter.fetch_add(bytes, Ordering::Relaxed);
        sent += bytes;
        let has_budget = flow.spend(sent);
        if !more {
            break;
        }
        if !has_budget {
            return finish(stream, &flow, &End::Enough, shared);
        }
    }
    flow.with_report(|r| r.ended = Ended::ByClient);
    Ok(())
}

/// Interface that has this address.
fn interface_of(here: IpAddr) -> Result<String, String> {
    let all = nix::ifaddrs::getifaddrs().map_err(|e| e.to_string())?;
    let mut names = all.filter_map(|i| {
        let storage = i.address?;
        let v4 = storage.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        let ip = v4.or_else(|| storage.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))?;
        (ip == here).then_some(i.interface_name)
    });
    names
        .next()
        .ok_or_else(|| format!("no interface has the address {here}"))
}

/// Packets so far.
#[derive(Default)]
struct Kept {
    packets: Vec<CapturedPacket>,
    bytes: usize,
    /// Packets without room.
    missed: u64,
}

impl Kept {
    /// Captures until the client says that it is enough.
    fn fill(
        &mut self,
        mut sniffer: Sniffer,
        ends: (SocketAddr, IpAddr),
        stream: &Line,
        until: i64,
        shared: &Shared,
    ) -> io::Result<End> {
        let link = sniffer.link();
        // The last packets are in the ring when the client's word arrives.
        let mut last = None;
        loop {
            if shared.stop.load(Ordering::Relaxed) {
                return Ok(End::Stopped);
            }
            let now = mono_ns();
            if now >= until {
                return Ok(End::TimeUp);
            }
            if last.is_some_and(|at| now >= at) {
                break;
            }
            sniffer.wait(WAIT_MS).map_err(io::Error::other)?;
            for _ in 0..AT_ONCE {
                if !sniffer.take(|p| self.packet(p, link, ends)) {
                    break;
                }
            }
            match stream.heard()? {
                Heard::Frame(body) => {
                    read_finished(&body).map_err(io::Error::other)?;
                    last = last.or(Some(now + i64::from(WAIT_MS) * 1_000_000));
                }
                Heard::PeerClosed => return Ok(End::PeerClosed),
                Heard::Nothing => {}
            }
        }
        self.missed += sniffer.counts().map_or(0, |(_, dropped)| dropped);
        Ok(End::Enough)
    }

    fn packet(&mut self, p: &Passed<'_>, link: LinkType, ends: (SocketAddr, IpAddr)) {
        let record = Record {
            t_ns: Some(p.t_ns),
            link,
            interface: 0,
            original_len: p.original_len,
            data: p.data,
        };
        let Some(frame) = frame::parse(&record).filter(|f| is_between(f, ends)) else {
            return;
        };
        let headers = headers(link, p.data);
        let (Some(headers), t_ns @ 0..) = (headers, p.t_ns) else {
            self.missed += 1;
            return;
        };
        if self.bytes + EACH + headers.len() > MOST_KEPT {
            self.missed += 1;
            return;
        }
        self.bytes += EACH + headers.len();
        self.packets.push(CapturedPacket {
            t_ns,
            ip_bytes: frame.ip_len,
            outgoing: p.outgoing,
            headers: headers.to_vec(),
        });
    }
}

/// True if a packet is TCP between the server's port and the client.
fn is_between(frame: &Frame<'_>, (here, peer): (SocketAddr, IpAddr)) -> bool {
    let ip = |address| Ipv6Addr::from(address).to_canonical();
    let at = |address, port: u16| SocketAddr::new(ip(address), port) == here;
    match &frame.transport {
        Transport::Tcp(tcp) => {
            at(frame.dst, tcp.dst_port) && ip(frame.src) == peer
                || at(frame.src, tcp.src_port) && ip(frame.dst) == peer
        }
        _ => false,
    }
}

/// Headers of IP and TCP; none if others stand between them.
fn headers(link: LinkType, data: &[u8]) -> Option<&[u8]> {
    let ip = match link {
        LinkType::RAW => 0,
        _ => {
            let mut at = 12;
            // Tags of VLANs (IEEE 802.1Q) stand before the type.
            while matches!(data.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
                at += 4;
            }
            at + 2
        }
    };
    let packet = data.get(ip..)?;
    let tcp = match packet.first()? >> 4 {
        4 => usize::from(packet[0] & 15) * 4,
        6 if *packet.get(6)? == 6 => 40,
        _ => return None,
    };
    let length = usize::from(packet.get(tcp + 12)? >> 4) * 4;
    packet
        .get(..tcp + length)
        .filter(|h| h.len() <= MOST_HEADERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_end_before_the_payload_and_strange_packets_have_none() {
        let mut packet = vec![0u8; 14];
        packet[12] = 0x08;
        packet.extend([
            0x45, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        let mut tcp = [0u8; 32];
        tcp[12] = 0x80;
        packet.extend(tcp);
        packet.extend(b"secret payload");
        let found = headers(LinkType::ETHERNET, &packet).expect("they are there");
        assert_eq!(found.len(), 52);
        assert!(!found.windows(6).any(|w| w == b"secret"));
        let mut tagged = packet[..12].to_vec();
        tagged.extend([0x81, 0, 0, 7]);
        tagged.extend(&packet[12..]);
        assert_eq!(headers(LinkType::ETHERNET, &tagged), Some(found));
        assert_eq!(headers(LinkType::RAW, &packet[14..]), Some(found));
        // A length that reaches beyond what was captured, or into the payload's place, is no header.
        for cut in 0..66 {
            assert_eq!(headers(LinkType::ETHERNET, &packet[..cut]), None, "{cut}");
        }
        packet[14] = 0x4f;
        assert!(headers(LinkType::ETHERNET, &packet).is_none_or(|h| h.len() <= MOST_HEADERS));
    }
}
