//! How much the load tool itself can move, and what it costs: both ends in one process over loopback,
//! so that the processor time is that of both together, the kernel's TCP included.
//!
//! `cargo bench -p tailback-live --bench load`

use base::Bytes;
use base::record::Direction;
use live::clock::{Clock, mono_ns};
use live::load::{Access, Load, LoadPlan, Peer};
use live::serve::{Budgets, ServeConfig, Server};
use live::tally::Tally;
use nix::sys::resource::{UsageWho, getrusage};
use std::sync::mpsc::channel;

fn cpu_s() -> (f64, f64) {
    let u = getrusage(UsageWho::RUSAGE_SELF).expect("one's own usage is always known");
    let s = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    (s(u.user_time()), s(u.system_time()))
}

fn main() {
    let server = Server::start(ServeConfig {
        listen: vec![([127, 0, 0, 1], 0).into()],
        budgets: Budgets {
            bytes_per_hour: Bytes::new(u64::MAX),
            ..Budgets::default()
        },
        ..ServeConfig::default()
    })
    .expect("loopback has free ports");
    for direction in [Direction::Up, Direction::Down] {
        for flows in [1, 4] {
            let plan = LoadPlan {
                peer: Peer {
                    server: server.local_addr(),
                    access: Access::default(),
                    patience: base::Duration::from_secs(5),
                },
                direction,
                flows,
                first_flow: 0,
                congestion: None,
                duration: base::Duration::from_secs(60),
                sample: base::Duration::from_millis(50),
                udp_rate: None,
                tally: Tally::default(),
            };
            let (rows, taken) = channel();
            let load = Load::start(plan, Clock::start(), rows).expect("the server is there");
            std::thread::sleep(std::time::Duration::from_millis(500));
            let (from, (user, system), bytes) = (mono_ns(), cpu_s(), load.progress().bytes);
            std::thread::sleep(std::time::Duration::from_secs(2));
            let (to, (user_then, system_then), bytes_then) =
                (mono_ns(), cpu_s(), load.progress().bytes);
            load.stop();
            let seconds = (to - from) as f64 / 1e9;
            let gbits = (bytes_then - bytes) as f64 * 8.0 / 1e9;
            let cpu = user_then - user + system_then - system;
            println!(
                "{direction:4} {flows} flows: {:5.2} Gbit/s, {:4.0} % of one processor ({:.0} ms user, {:.0} ms system a Gbit), {} rows",
                gbits / seconds,
                cpu / seconds * 100.0,
                (user_then - user) / gbits * 1e3,
                (system_then - system) / gbits * 1e3,
                taken.iter().count(),
            );
        }
    }
}
