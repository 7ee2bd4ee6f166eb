//! Kernel interfaces that a load needs beyond plain sockets: TCP_INFO, congestion controls.

pub use super::shared::{close_abruptly, random_bytes};
use crate::sys::option;
use base::Duration;
use measure::control::{Limits, SenderState};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::SockRef;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

/// Kernel's view of a TCP connection. Kernels append fields to `struct tcp_info` and never move one, so each is read at
/// its place in `linux/tcp.h` and only if the kernel filled it in.
pub struct TcpInfo {
    raw: [u8; 256],
    len: usize,
    /// Most payload that was ever known to be delivered; see [`TcpInfo::read_after`].
    delivered: u64,
}

// Byte offsets in struct tcp_info, include/uapi/linux/tcp.h.
const OPTIONS: usize = 5;
const SND_MSS: usize = 16;
const RCV_MSS: usize = 20;
const SACKED: usize = 28;
const RTT_US: usize = 68;
const RTTVAR_US: usize = 72;
const SND_SSTHRESH: usize = 76;
const SND_CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const SEGS_OUT: usize = 136;
const SEGS_IN: usize = 140;
const MIN_RTT_US: usize = 148;
const DATA_SEGS_OUT: usize = 156;
const DELIVERY_RATE: usize = 160;
const BUSY_TIME_US: usize = 168;
const RWND_LIMITED_US: usize = 176;
const SNDBUF_LIMITED_US: usize = 184;
const BYTES_SENT: usize = 200;
/// Option bit: both ends stamp their packets.
const OPTION_TIMESTAMPS: u8 = 1;
/// Value of TCP_INFINITE_SSTHRESH, include/net/tcp.h.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

impl TcpInfo {
    /// # Errors
    /// Errors of `getsockopt`, which has none for an open TCP socket.
    pub fn read(socket: &TcpStream) -> io::Result<TcpInfo> {
        let mut raw = [0u8; 256];
        let len = option::get(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            &mut raw,
        )?;
        let mut info = TcpInfo {
            raw,
            len,
            delivered: 0,
        };
        info.delivered = info.delivered_now().unwrap_or(0);
        Ok(info)
    }

    /// Reads it once more. The count of delivered payload is an estimate while a hole is open, and never falls below
    /// `most`, which it raises.
    ///
    /// # Errors
    /// Errors of [`TcpInfo::read`].
    pub fn read_after(socket: &TcpStream, most: &mut u64) -> io::Result<TcpInfo> {
        let mut info = TcpInfo::read(socket)?;
        *most = info.delivered.max(*most);
        info.delivered = *most;
        Ok(info)
    }

    /// Payload acknowledged, and that of the segments acknowledged selectively. The kernel counts those in segments, which
    /// are shorter than the MSS where the receiver's window or the application makes them so: their mean size counts.
    fn delivered_now(&self) -> Option<u64> {
        let acked = self.bytes_acked()?;
        let sacked = u64::from(self.u32(SACKED)?);
        let sent = self.u64(BYTES_SENT).zip(self.u32(DATA_SEGS_OUT));
        let mss = u64::from(self.u32(SND_MSS)?);
        let mean = sent
            .and_then(|(bytes, segments)| bytes.checked_div(u64::from(segments)))
            .map_or(mss, |mean| mean.min(mss));
        Some(acked + sacked * mean)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.raw[..self.len].get(at..at + N)?.try_into().ok()
    }
    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_ne_bytes)
    }
    fn u64(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_ne_bytes)
    }

    /// Bytes acknowledged since the connection began, our handshakes included.
    pub fn bytes_acked(&self) -> Option<u64> {
        self.u64(BYTES_ACKED)
    }

    /// Payload received in order since the connection began, those of its own handshakes included.
    pub fn bytes_received(&self) -> Option<u64> {
        self.u64(BYTES_RECEIVED)
    }

    /// Payload of the far end's full segments, as far as this end has seen them; null before the first.
    pub fn received_mss(&self) -> Option<u64> {
        let mss = self.u32(RCV_MSS).map(u64::from);
        mss.filter(|m| (512..=65_535).contains(m))
    }

    /// Size of TCP's header on packets of this connection, without selective acknowledgements.
    pub fn header_bytes(&self) -> u64 {
        let options: [u8; 1] = self.bytes(OPTIONS).unwrap_or_default();
        match options[0] & OPTION_TIMESTAMPS {
            0 => 20,
            _ => 32,
        }
    }

    /// Packets of both directions since the connection began, and the bytes that they carried, our retransmissions
    /// included.
    pub fn passed(&self) -> (u64, u64) {
        let packets = |at| u64::from(self.u32(at).unwrap_or(0));
        let bytes = |at| self.u64(at).unwrap_or(0);
        (
            packets(SEGS_OUT) + packets(SEGS_IN),
            bytes(BYTES_SENT) + bytes(BYTES_RECEIVED),
        )
    }

    pub fn sender(&self) -> SenderState {
        let mss = u64::from(self.u32(SND_MSS).unwrap_or(0));
        let micros = |at| {
            self.u32(at)
                .filter(|us| !matches!(*us, 0 | u32::MAX))
                .map(|us| u64::from(us) * 1000)
        };
        SenderState {
            cwnd_bytes: u64::from(self.u32(SND_CWND).unwrap_or(0)) * mss,
            ssthresh_bytes: self
                .u32(SND_SSTHRESH)
                .filter(|s| *s < INFINITE_SSTHRESH)
                .map(|s| u64::from(s) * mss),
            srtt_ns: micros(RTT_US),
            rttvar_ns: micros(RTTVAR_US),
            min_rtt_ns: micros(MIN_RTT_US),
            retransmits: u64::from(self.u32(TOTAL_RETRANS).unwrap_or(0)),
            delivered_bytes: self.bytes_acked().map(|_| self.delivered),
            delivery_rate_bps: self
                .u64(DELIVERY_RATE)
                .filter(|r| *r > 0)
                .map(|r| r.saturating_mul(8)),
            mss_bytes: mss,
        }
    }

    pub fn limits(&self) -> Limits {
        let micros = |at| Duration::from_nanos(self.u64(at).unwrap_or(0).saturating_mul(1000));
        Limits {
            busy: micros(BUSY_TIME_US),
            receive_window: micros(RWND_LIMITED_US),
            send_buffer: micros(SNDBUF_LIMITED_US),
            server_ceiling: Duration::ZERO,
        }
    }
}

/// Limits the data that wait in the socket beyond what TCP has sent.
pub fn set_notsent_lowat(socket: &TcpStream, bytes: u32) -> io::Result<()> {
    let bytes = i32::from_ne_bytes(bytes.to_ne_bytes());
    let fd = socket.as_raw_fd();
    option::set_int(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Lets a sender keep more in flight than `tcp_wmem` allows, if permitted: a bloated fast link holds more than its 4
/// MB. Unsent data stay limited by [`set_notsent_lowat`], so nothing piles up for it.
pub fn lift_send_buffer(socket: &impl AsFd) {
    let wanted: usize = 64 << 20;
    if SockRef::from(socket)
        .send_buffer_size()
        .is_ok_and(|now| now < wanted)
    {
        // Without CAP_NET_ADMIN autotuning up to tcp_wmem remains, and a flow that it held back says so.
        let _ = setsockopt(socket, sockopt::SndBufForce, &wanted);
    }
}

/// Congestion controls of this network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CongestionControls {
    pub available: Vec<String>,
    /// Congestion controls that may be chosen without CAP_NET_ADMIN.
    pub allowed: Vec<String>,
}

impl CongestionControls {
    pub fn read() -> CongestionControls {
        let words = |name: &str| {
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"))
                .map(|s| s.split_whitespace().map(str::to_string).collect())
                .unwrap_or_default()
        };
        CongestionControls {
            available: words("tcp_available_congestion_control"),
            allowed: words("tcp_allowed_congestion_control"),
        }
    }
}

/// Error: the kernel does not offer this congestion control.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("congestion control \"{name}\" {why}. This kernel has: {}; without CAP_NET_ADMIN one may choose: {}", .has.available.join(", "), .has.allowed.join(", "))]
pub struct NoSuchCongestionControl {
    pub name: String,
    pub why: &'static str,
    pub has: CongestionControls,
}

/// Chooses the named congestion control; without a name CUBIC, or Reno if the kernel keeps CUBIC from this user. Most
/// senders on the Internet use these, and they fill a queue; a machine's own default may be one that avoids queues.
///
/// # Errors
/// A named control that the kernel does not have, or does not let this user choose.
pub fn choose_congestion(
    socket: SockRef<'_>,
    name: Option<&str>,
) -> Result<(), NoSuchCongestionControl> {
    let refused = |name: &str, why| NoSuchCongestionControl {
        name: name.to_string(),
        why,
        has: CongestionControls::read(),
    };
    match name {
        // TCP_CA_NAME_MAX, include/net/tcp.h.
        Some(name) if name.is_empty() || name.len() >= 16 => {
            Err(refused(name, "is no name of one"))
        }
        Some(name) => socket.set_tcp_congestion(name.as_bytes()).map_err(|e| {
            let why = match e.raw_os_error() {
                Some(libc::EPERM) => "may not be chosen by this user",
                _ => "is not in this kernel (modprobe tcp_NAME may load it)",
            };
            refused(name, why)
        }),
        None => {
            // Reno fills a queue too, and every kernel lets everybody choose it.
            let _ = socket
                .set_tcp_congestion(b"cubic")
                .or_else(|_| socket.set_tcp_congestion(b"reno"));
            Ok(())
        }
    }
}

/// Congestion control that a socket uses.
pub fn congestion_of(socket: &TcpStream) -> String {
    let name = SockRef::from(socket).tcp_congestion().unwrap_or_default();
    String::from_utf8_lossy(&name)
        .trim_end_matches('\0')
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn short_segments_count_with_the_bytes_that_they_carry() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.set_nodelay(true).unwrap();
        // The kernel joins what waits: each piece is read before the next one leaves.
        let mut most = 0;
        for size in [88usize, 1_000, 3, 20_000, 88] {
            near.write_all(&vec![7; size]).unwrap();
            far.read_exact(&mut vec![0; size]).unwrap();
            let before = most;
            let info = TcpInfo::read_after(&near, &mut most).unwrap();
            assert!(most >= before, "{most} after {before}");
            let state = info.sender();
            assert!(state.delivered_bytes <= info.bytes_acked(), "{state:?}");
        }
        // The last acknowledgement may be on its way.
        let since = std::time::Instant::now();
        while most < 21_179 && since.elapsed() < std::time::Duration::from_secs(5) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            TcpInfo::read_after(&near, &mut most).unwrap();
        }
        // The kernel counts the SYN as a byte.
        assert!((21_179..=21_180).contains(&most), "{most}");
    }
}
