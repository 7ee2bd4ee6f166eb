//! How exact the emulated link is on this host: delay that it adds to its nominal one, and the rate it
//! gives. Times are the kernel's receive stamps, so that the waking up of this program is left out.
//! Run by `bench/emulate.sh`; prints a table.

use link::LinkSpec;
use live::clock::{Clock, mono_ns, wall_minus_mono_ns};
use live::emulate::{self, Emulation, FAR_V4, NEAR_V4, NetNs, Options, Summary};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Interval of the probes and how many of them are sent.
const EVERY_NS: i64 = 10_000_000;
const PROBES: usize = 1_000;

fn main() -> Result<(), Failure> {
    emulate::prepare()?;
    // The kernel starts to stamp a while after it was asked to; a socket that is there already helps.
    delays()?;
    for (rate, payload) in [
        ("65 kbit/s", 100),
        ("2 Mbit/s", 1472),
        ("20 Mbit/s", 1472),
        ("200 Mbit/s", 1472),
    ] {
        rates(rate, payload)?;
    }
    Ok(())
}

fn link(direction: &str) -> Result<LinkSpec, Failure> {
    Ok(LinkSpec::parse(&format!(
        "name = \"bench\"\ntitle = \"bench\"\n[up]\n{direction}\n[down]\n{direction}\n"
    ))?)
}

fn socket(ns: &NetNs, own: Ipv4Addr) -> Result<UdpSocket, Failure> {
    let socket = ns.run(|| UdpSocket::bind((own, 0)))??;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RcvBuf, &(4 << 20))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    Ok(socket)
}

fn pair(emulation: &Emulation) -> Result<(UdpSocket, UdpSocket), Failure> {
    let (near, far) = (
        socket(emulation.near(), NEAR_V4)?,
        socket(emulation.far(), FAR_V4)?,
    );
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    Ok((near, far))
}

/// When the next datagram reached the kernel, monotonic ns. Nothing after a second of silence.
fn arrival(socket: &UdpSocket) -> Option<i64> {
    let mut buffer = [0; 2000];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::empty(),
    )
    .ok()?;
    message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(t) => {
            Some(t.tv_sec() * 1_000_000_000 + t.tv_nsec() - wall_minus_mono_ns())
        }
        _ => None,
    })
}

fn delays() -> Result<(), Failure> {
    const NOMINAL_NS: i64 = 5_000_000;
    let emulation = Emulation::start(
        &[link("rate = \"1 Gbit/s\"\ndelay = \"5 ms\"")?],
        Options::new(Clock::start()),
    )?;
    let (near, far) = pair(&emulation)?;
    let (mut up, mut down, mut rtt) = (Vec::new(), Vec::new(), Vec::new());
    let echo = std::thread::spawn(move || -> Result<Vec<(i64, i64)>, Failure> {
        let mut times = Vec::new();
        while let Some(received) = arrival(&far) {
            let sent = mono_ns();
            far.send(&[0; 64])?;
            times.push((received, sent));
        }
        Ok(times)
    });
    let start = mono_ns();
    let mut times = Vec::new();
    for i in 0..PROBES as i64 {
        std::thread::sleep(Duration::from_nanos(
            (start + i * EVERY_NS - mono_ns()).max(0) as u64,
        ));
        let sent = mono_ns();
        near.send(&[0; 64])?;
        times.push((sent, arrival(&near).ok_or("a probe was lost")?));
    }
    let echoed = echo.join().map_err(|_| "the echo panicked")??;
    for ((sent, back), (there, returned)) in times.into_iter().zip(echoed) {
        up.push(there - sent - NOMINAL_NS);
        down.push(back - returned - NOMINAL_NS);
        rtt.push(back - sent - (returned - there) - 2 * NOMINAL_NS);
    }
    println!("Added delay, {PROBES} echoes of 64 bytes at 100/s over 5 ms each way, us:");
    println!(
        "{:<12}{:>9}{:>9}{:>9}{:>9}",
        "", "p50", "p99", "p99.9", "max"
    );
    for (name, mut values) in [("up", up), ("down", down), ("round trip", rtt)] {
        values.sort_unstable();
        let us = |q: f64| {
            let ns = base::sketch::quantile(values.len() as u64, q, |k| values[k as usize] as f64);
            ns.unwrap_or(f64::NAN) / 1e3
        };
        println!(
            "{name:<12}{:>9.1}{:>9.1}{:>9.1}{:>9.1}",
            us(0.5),
            us(0.99),
            us(0.999),
            us(1.0)
        );
    }
    report(&emulation.stop()?);
    println!("Rate of a UDP flood at three times the link's, by arrival:");
    Ok(())
}

fn rates(rate: &str, payload: usize) -> Result<(), Failure> {
    let nominal = rate.parse::<base::BitsPerSec>()?.get() as f64;
    let emulation = Emulation::start(
        &[link(&format!(
            "rate = \"{rate}\"\nqueue = \"fifo:packets=50\""
        ))?],
        Options::new(Clock::start()),
    )?;
    let (near, far) = pair(&emulation)?;
    let bits = (payload + 28) as f64 * 8.0;
    let gap_ns = bits / nominal / 3.0 * 1e9;
    let sender = std::thread::spawn(move || -> Result<(), std::io::Error> {
        let start = mono_ns();
        let mut sent = 0.0;
        while mono_ns() - start < 3_000_000_000 {
            let due = (mono_ns() - start) as f64 / gap_ns;
            while sent < due {
                near.send(&[0; 1472][..payload])?;
                sent += 1.0;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    });
    let mut arrivals = Vec::new();
    while let Some(at) = arrival(&far) {
        arrivals.push(at);
    }
    sender.join().map_err(|_| "the sender panicked")??;
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return Err("nothing arrived".into());
    };
    let got = (arrivals.len() - 1) as f64 * bits / ((last - first) as f64 / 1e9);
    println!(
        "{rate:<12}{:>9} packets, {:+.3} % off",
        arrivals.len(),
        (got / nominal - 1.0) * 100.0
    );
    report(&emulation.stop()?);
    Ok(())
}

fn report(summary: &Summary) {
    if let Some(doubt) = summary.doubt() {
        println!("  warning: {doubt}");
    }
}
