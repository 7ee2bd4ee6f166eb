//! Hosts in namespaces beside the test: a slow processor, and traffic of their own.

use anyhow::Context;
use sim::bufferbloat::Cross;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Port that takes cross traffic and throws it away, as the discard service does.
const DISCARD: u16 = 9;
/// Bytes of a datagram of cross traffic, without its headers.
const PAYLOAD: usize = 1_200;
/// Bytes of the headers of IPv6 and UDP.
const HEADERS: usize = 48;

/// Arguments of `cross`: traffic beside the test, for the draws over namespaces.
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Host that the traffic goes to; without it, traffic is taken and thrown away
    #[arg(long)]
    to: Option<String>,
    /// Rate of whole IP packets in a burst, bit/s
    #[arg(long, default_value_t = 1)]
    rate: u64,
    /// Mean length of a burst, ms
    #[arg(long, default_value_t = 1_000.0)]
    on: f64,
    /// Mean silence after a burst, ms; 0 sends always
    #[arg(long, default_value_t = 0.0)]
    off: f64,
    /// Seed of the bursts
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Sends or takes cross traffic until the process is killed.
///
/// # Errors
/// A socket that cannot be opened.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(to) = &args.to else {
        let socket = UdpSocket::bind(("::", DISCARD))?;
        let mut room = [0; 2_048];
        loop {
            socket.recv(&mut room)?;
        }
    };
    let socket = UdpSocket::bind(("::", 0))?;
    // The other end's program may start later than this one.
    socket
        .connect((to.as_str(), DISCARD))
        .context("cross traffic")?;
    let c = &mut crate::chance::Chance::new(args.seed, "cross");
    let gap = Duration::from_secs_f64(((PAYLOAD + HEADERS) * 8) as f64 / args.rate.max(1) as f64);
    loop {
        let began = Instant::now();
        let span = match args.off > 0.0 {
            true => c.exponential(args.on / 1e3),
            false => f64::INFINITY,
        };
        let mut next = began;
        while began.elapsed().as_secs_f64() < span {
            // What the host does not take is lost, as any burst's packets are.
            let _ = socket.send(&[0; PAYLOAD]);
            next += gap;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        std::thread::sleep(Duration::from_secs_f64(c.exponential(args.off / 1e3)));
    }
}

/// The shell's words that start a draw's cross traffic in the background. `to` is the host at the other end.
pub fn sends(cross: &Cross, to: &str, seed: u64) -> anyhow::Result<String> {
    Ok(format!(
        "'{}' cross --to {to} --rate {} --on {} --off {} --seed {seed} & ",
        std::env::current_exe()?.display(),
        cross.rate.get(),
        cross.on.as_millis_f64(),
        cross.off.as_millis_f64()
    ))
}

/// The shell's words that start a sink of cross traffic in the background.
pub fn takes() -> anyhow::Result<String> {
    Ok(format!("'{}' cross & ", std::env::current_exe()?.display()))
}

/// Control group whose processes get a share of one processor; it vanishes when dropped.
pub struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// # Errors
    /// A kernel without control groups for processors, or no right to make one.
    pub fn new(name: &str, share: f64) -> anyhow::Result<Quota> {
        // The scheduler counts in periods: shorter ones slow a program down evenly.
        const PERIOD_US: f64 = 10_000.0;
        let quota = (share * PERIOD_US).max(1_000.0) as u64;
        let period = (quota as f64 / share) as u64;
        let old = Path::new("/sys/fs/cgroup/cpu");
        let root = if old.is_dir() {
            old
        } else {
            Path::new("/sys/fs/cgroup")
        };
        let folder = root.join(format!("tailback-lab-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder)
            .with_context(|| format!("control group {}", folder.display()))?;
        let made = Quota { folder };
        let write = |file: &str, text: String| {
            let path = made.folder.join(file);
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        match old.is_dir() {
            true => {
                write("cpu.cfs_period_us", period.to_string())?;
                write("cpu.cfs_quota_us", quota.to_string())?;
            }
            false => write("cpu.max", format!("{quota} {period}"))?,
        }
        Ok(made)
    }

    /// The shell's words that put the shell, and what it starts, into the group.
    pub fn enters(&self) -> String {
        format!("echo $$ > '{}/cgroup.procs'; ", self.folder.display())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Its processes have ended with the emulator; the kernel may need a moment to notice.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
