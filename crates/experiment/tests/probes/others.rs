use super::line;
use base::record::Direction;
use base::rng::{Streams, uniform};
use base::{BitsPerSec, Bytes, Duration};
use experiment::spec::Far;
use experiment::{Bounds, Others, ProbeSpec, Setting, Stopped};
use sim::bufferbloat::{Cross, Plan, RunError, carry_out};

/// Users of a link that they emulated themselves were told that others use it. Random traffic on the interface stops a run
/// over a line to a server, and none over a private one.
#[test]
fn a_private_line_suspects_nobody() {
    let up = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"fifo:packets=50\"";
    for seed in 0..5 {
        let mut rng = Streams::new(seed).stream("others");
        let mut plan = Plan::new(line(up), seed);
        plan.cross.push(Cross {
            direction: Direction::Up,
            rate: BitsPerSec::from_kbps(100 + (uniform(&mut rng) * 500.0) as u64),
            on: Duration::from_secs(1),
            off: Duration::ZERO,
            here: true,
        });
        let under = |others: Others| {
            let budget = Bytes::new(5_000_000);
            let spec: ProbeSpec = "burst".parse().expect("a probe");
            let setting = Setting {
                budget,
                far: Far::Virtual,
            };
            let mut steps = spec.steps(&setting).expect("it is enough");
            let bounds = Bounds {
                others,
                ..Bounds::of(budget)
            };
            carry_out(&plan, &mut *steps, &bounds, "probe").map(|_| ())
        };
        let stopped = under(Others::Keep(Duration::ZERO));
        assert!(
            matches!(stopped, Err(RunError::Stopped(Stopped::Others { .. }))),
            "seed {seed}: {stopped:?}"
        );
        let private = under(Others::Nobody);
        assert!(private.is_ok(), "seed {seed}: {private:?}");
    }
}
