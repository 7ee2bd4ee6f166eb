//! Capture in the background of an experiment: the packets between this host and one server, as a file and as rows of a
//! recording.

use super::live::Copy;
use super::packet_rows::PacketRows;
use base::record::Row;
use live::clock::wall_ns;
use live::sniff::{SniffError, Sniffer};
use measure::capture::Record;
use measure::capture::frame::{self, Frame, Transport};
use measure::track::{Settings, Tracker};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

/// Bytes of each packet that are captured: headers with all their options.
const SNAPLEN: usize = 128;
const WAIT_MS: u16 = 100;
/// Number of packets taken before the stop flag is checked.
const AT_ONCE: usize = 4096;

/// Capture that runs until it is stopped.
pub struct BackgroundCapture {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Passed>>,
}

/// Result of a background capture.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Packets between this host and the server.
    pub packets: u64,
    /// Packets of any host on the interface that the kernel dropped.
    pub missed: Option<u64>,
}

impl BackgroundCapture {
    /// Starts a capture of TCP packets to and from `server` on an interface, into the file and as rows.
    ///
    /// # Errors
    /// Missing privileges, or a file that cannot be written.
    pub fn start(
        interface: &str,
        server: SocketAddr,
        file: &Path,
        rows: Sender<Row>,
    ) -> anyhow::Result<BackgroundCapture> {
        let stop = Arc::new(AtomicBool::new(false));
        let its_stop = stop.clone();
        let (name, file) = (interface.to_owned(), file.to_owned());
        let (tell, opened) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || {
                let open = || -> anyhow::Result<(Sniffer, Copy)> {
                    let sniffer = Sniffer::open(&name, SNAPLEN)?;
                    let copy = Copy::create(&file, &name, sniffer.link(), SNAPLEN as u32)?;
                    Ok((sniffer, copy))
                };
                match open() {
                    Ok((sniffer, copy)) => {
                        // Its receiver waits for exactly one message.
                        let _ = tell.send(Ok(()));
                        capture(sniffer, copy, server, rows, &its_stop)
                    }
                    Err(e) => {
                        let _ = tell.send(Err(e));
                        anyhow::bail!("it could not begin")
                    }
                }
            })?;
        match opened.recv() {
            Ok(opened) => opened?,
            Err(_) => anyhow::bail!("the capture's thread ended"),
        }
        Ok(BackgroundCapture { stop, thread })
    }

    /// Stops the capture; packets up to then are in the file and in the rows.
    ///
    /// # Errors
    /// The interface went down, or the disk failed.
    pub fn stop(self) -> anyhow::Result<Passed> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// True if a packet is TCP to or from the server.
fn is_of(frame: &Frame<'_>, server: SocketAddr) -> bool {
    let end = |address, port: u16| {
        let ip: IpAddr = Ipv6Addr::from(address).to_canonical();
        (ip, port) == (server.ip().to_canonical(), server.port())
    };
    match &frame.transport {
        Transport::Tcp(tcp) => end(frame.src, tcp.src_port) || end(frame.dst, tcp.dst_port),
        _ => false,
    }
}

fn capture(
    mut sniffer: Sniffer,
    mut copy: Copy,
    server: SocketAddr,
    mut rows: Sender<Row>,
    stop: &AtomicBool,
) -> anyhow::Result<Passed> {
    let link = sniffer.link();
    let mut tracker = Tracker::new(Settings::default());
    let mut packet_rows = PacketRows::new(&mut rows);
    let mut packets = 0;
    let mut end_ns = None;
    let failed: Option<SniffError> = loop {
        if end_ns.is_none() && stop.load(Ordering::Relaxed) {
            end_ns = Some(wall_ns());
        }
        if end_ns.is_none()
            && let Err(e) = sniffer.wait(WAIT_MS)
        {
            break Some(e);
        }
        let (mut more, mut late) = (true, false);
        for _ in 0..AT_ONCE {
            more = sniffer.take(|p| {
                // A busy line never leaves the ring empty.
                late = end_ns.is_some_and(|end| p.t_ns > end);
                let record = Record {
                    t_ns: Some(p.t_ns),
                    link,
                    interface: 0,
                    original_len: p.original_len,
                    data: p.data,
                };
                let frame = frame::parse(&record);
                let Some(frame) = frame.filter(|f| !late && is_of(f, server)) else {
                    return;
                };
                packets += 1;
                copy.packet(p);
                packet_rows.begin(p.t_ns.into(), Some(&frame));
                tracker.packet_watched(record.t_ns, p.original_len, Some(&frame), &mut packet_rows);
                packet_rows.end();
            });
            if !more || late {
                break;
            }
        }
        if end_ns.is_some() && (!more || late) {
            break None;
        }
    };
    let missed = sniffer.counts().ok().map(|(_, missed)| missed);
    tracker.finish_watched(&mut packet_rows);
    copy.close()?;
    match failed {
        Some(e) => Err(e.into()),
        None => Ok(Passed { packets, missed }),
    }
}
