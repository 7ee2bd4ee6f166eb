//! Programs of crafted datagrams, with given sizes at given instants, and the fate of each datagram.
//!
//! A [`Program`] is a pure value, written as text such as
//! `1000 x 1452@0 s, 1452@7.26 ms; pause 5 s; 50 x 200@1 ms dscp=46 ecn=2 df`. Executing it over a real link or in
//! virtual time gives a [`Train`]: the times at which each datagram left and arrived.
//!
//! Units: sizes are UDP payload in bytes; instants are counted from the first datagram.

use crate::record::{Datagram, Direction, Event, Recording};
use crate::{BitsPerSec, Bytes, Duration, Ecn};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Smallest UDP payload, bytes: the header that identifies each datagram.
pub const SMALLEST_PAYLOAD: u32 = 20;
/// Largest UDP payload in IPv4, bytes; IPv6 allows no more without jumbograms.
pub const LARGEST_PAYLOAD: u32 = 65_507;
/// Largest number of datagrams in a program; limits what a receiver stores.
pub const MOST_DATAGRAMS: u64 = 1_000_000;
/// Greatest number of steps of a program.
pub const MOST_STEPS: usize = 64;
/// Largest number of shots in all steps together; keeps a program's text short.
pub const MOST_SHOTS: usize = 256;
/// Longest duration of a program.
pub const LONGEST: Duration = Duration::from_secs(3_600);

/// Datagram, and the time from it to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// UDP payload, bytes.
    pub payload: u32,
    /// Time to the next datagram.
    pub gap: Duration,
}

/// Header bits that a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// True if neither this host nor a router may fragment the datagram (DF).
    pub whole: bool,
}

impl Marking {
    /// No marking.
    pub const NONE: Marking = Marking {
        dscp: 0,
        ecn: Ecn::NotEct,
        whole: false,
    };

    /// Returns the TOS or traffic-class byte.
    pub const fn tos(self) -> u8 {
        self.dscp << 2 | self.ecn.bits()
    }
}

/// Sequence of shots, repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Datagrams of the step, which repeat.
    pub shots: Vec<Shot>,
    /// Number of repetitions.
    pub times: u64,
    /// Marking of the datagrams.
    pub marking: Marking,
    /// Silence after the last gap.
    pub pause: Duration,
}

impl Step {
    /// Creates a step without marking or pause.
    pub fn new(times: u64, shots: Vec<Shot>) -> Step {
        Step {
            shots,
            times,
            marking: Marking::NONE,
            pause: Duration::ZERO,
        }
    }

    /// Makes a burst: `count` datagrams without gaps.
    pub fn burst(count: u64, payload: u32) -> Step {
        Step::new(
            count,
            vec![Shot {
                payload,
                gap: Duration::ZERO,
            }],
        )
    }

    /// Makes at least two evenly spaced datagrams for `time`; their payload alone has the rate `rate`.
    pub fn steady(payload: u32, rate: BitsPerSec, time: Duration) -> Step {
        let gap = Bytes::new(u64::from(payload)).serialization_delay_ceil(rate);
        let times = time.as_nanos() / gap.as_nanos().max(1);
        Step::new(times.max(2), vec![Shot { payload, gap }])
    }

    /// Step with this marking.
    pub fn marked(mut self, marking: Marking) -> Step {
        self.marking = marking;
        self
    }

    /// Step followed by a pause.
    pub fn then_pause(mut self, pause: Duration) -> Step {
        self.pause = pause;
        self
    }

    /// Number of datagrams.
    pub fn count(&self) -> u64 {
        self.times.saturating_mul(self.shots.len() as u64)
    }

    /// Shortens the step to one of `share` equal shares of the limits.
    fn clamp(&mut self, share: u64) {
        self.shots.truncate((MOST_SHOTS / share as usize).max(1));
        let shots = self.shots.len() as u64;
        let time = LONGEST.as_nanos() / share;
        self.pause = self.pause.min(Duration::from_nanos(time / 2));
        let gap = Duration::from_nanos(time / 2 / shots);
        for shot in &mut self.shots {
            shot.payload = shot.payload.clamp(SMALLEST_PAYLOAD, LARGEST_PAYLOAD);
            shot.gap = shot.gap.min(gap);
        }
        let cycle: u64 = self.shots.iter().map(|s| s.gap.as_nanos()).sum();
        let fit = (time - self.pause.as_nanos()).checked_div(cycle);
        let most = fit.unwrap_or(u64::MAX).min(MOST_DATAGRAMS / share / shots);
        self.times = self.times.clamp(1, most.max(1));
    }

    fn time(&self) -> Duration {
        let gaps = self.shots.iter().map(|s| s.gap.as_nanos());
        let cycle = gaps.fold(0u64, u64::saturating_add);
        Duration::from_nanos(
            cycle
                .saturating_mul(self.times)
                .saturating_add(self.pause.as_nanos()),
        )
    }
}

/// Program: the datagrams of a train with their times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Program {
    steps: Vec<Step>,
}

/// Error for a program that cannot be read or exceeds the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error(
        "program: \"{part}\": {why}. Write steps such as \"50 x 1452@6 ms\", a burst as \"50 x 1452\", pairs as \"9 x 1452, 1452@5 ms\""
    )]
    Unreadable { part: String, why: String },
    #[error("program: no datagram to send")]
    Empty,
    #[error(
        "program: a payload of {payload} bytes; it must be {SMALLEST_PAYLOAD} to {LARGEST_PAYLOAD}"
    )]
    Payload { payload: u32 },
    #[error("program: {what} {is}, and at most {most} are allowed")]
    TooMuch {
        what: &'static str,
        is: String,
        most: String,
    },
}

/// Datagram of a program with its send time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Number of the datagram.
    pub seq: u64,
    /// Send time after the first datagram.
    pub at: Duration,
    /// Payload in bytes.
    pub payload: u32,
    /// Number of its step.
    pub step: usize,
    /// Index of the shot within its step.
    pub shot: usize,
    /// Marking of the datagram.
    pub marking: Marking,
}

impl Program {
    /// # Errors
    /// Fails for sizes or counts beyond the limits.
    pub fn new(steps: Vec<Step>) -> Result<Program, ProgramError> {
        let program = Program { steps };
        let too_much = |what, is: String, most: String| ProgramError::TooMuch { what, is, most };
        if program.count() == 0 || program.steps.iter().any(|s| s.shots.is_empty()) {
            return Err(ProgramError::Empty);
        }
        for shot in program.steps.iter().flat_map(|s| &s.shots) {
            if !(SMALLEST_PAYLOAD..=LARGEST_PAYLOAD).contains(&shot.payload) {
                return Err(ProgramError::Payload {
                    payload: shot.payload,
                });
            }
        }
        let shots: usize = program.steps.iter().map(|s| s.shots.len()).sum();
        for (what, is, most) in [
            ("steps:", program.steps.len() as u64, MOST_STEPS as u64),
            ("shots:", shots as u64, MOST_SHOTS as u64),
            ("datagrams:", program.count(), MOST_DATAGRAMS),
        ] {
            if is > most {
                return Err(too_much(what, is.to_string(), most.to_string()));
            }
        }
        if program.time() > LONGEST {
            return Err(too_much(
                "it lasts",
                program.time().to_string(),
                LONGEST.to_string(),
            ));
        }
        Ok(program)
    }

    /// Makes a program of one step, shortened to the limits if necessary.
    pub fn of(step: Step) -> Program {
        Program::within(vec![step])
    }

    /// Makes a program of these steps, shortened to the limits if necessary. Use it for programs that depend on
    /// measured values: a lying server can make those arbitrary.
    pub fn within(mut steps: Vec<Step>) -> Program {
        if let Ok(program) = Program::new(steps.clone()) {
            return program;
        }
        steps.retain(|s| s.times > 0 && !s.shots.is_empty());
        steps.truncate(MOST_STEPS);
        let share = steps.len().max(1);
        steps.iter_mut().for_each(|s| s.clamp(share as u64));
        if steps.is_empty() {
            steps.push(Step::burst(1, SMALLEST_PAYLOAD));
        }
        Program::new(steps).expect("each step has its share of the limits")
    }

    /// Steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Number of datagrams.
    pub fn count(&self) -> u64 {
        self.steps
            .iter()
            .fold(0u64, |n, s| n.saturating_add(s.count()))
    }

    /// Returns the time from the first datagram to the end of the last pause.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(
            self.steps
                .iter()
                .fold(0u64, |t, s| t.saturating_add(s.time().as_nanos())),
        )
    }

    /// Returns the bytes it puts on the link, with `headers` bytes of IP and UDP header per datagram.
    pub fn bytes(&self, headers: u32) -> Bytes {
        let bytes = self.steps.iter().fold(0u64, |n, s| {
            let cycle: u64 = s
                .shots
                .iter()
                .map(|shot| u64::from(shot.payload + headers))
                .sum();
            n.saturating_add(cycle.saturating_mul(s.times))
        });
        Bytes::new(bytes)
    }

    /// Largest payload, bytes.
    pub fn largest_payload(&self) -> u32 {
        let shots = self.steps.iter().flat_map(|s| &s.shots);
        shots.map(|s| s.payload).max().unwrap_or(0)
    }

    /// Iterates over all datagrams in send order.
    pub fn datagrams(&self) -> impl Iterator<Item = Due> + '_ {
        let mut at = Duration::ZERO;
        let mut seq = 0;
        self.steps.iter().enumerate().flat_map(move |(step, s)| {
            let (began, first) = (at, seq);
            at += s.time();
            seq += s.count();
            let mut due = began;
            (0..s.times)
                .flat_map(move |round| (0..s.shots.len()).map(move |i| (round, i)))
                .map(move |(round, i)| {
                    let shot = s.shots[i];
                    let this = Due {
                        seq: first + round * s.shots.len() as u64 + i as u64,
                        at: due,
                        payload: shot.payload,
                        step,
                        shot: i,
                        marking: s.marking,
                    };
                    due += shot.gap;
                    this
                })
        })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{} x ", step.times)?;
            for (j, shot) in step.shots.iter().enumerate() {
                if j > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{}", shot.payload)?;
                if !shot.gap.is_zero() {
                    write!(f, "@{}", shot.gap)?;
                }
            }
            let Marking { dscp, ecn, whole } = step.marking;
            if dscp != 0 {
                write!(f, " dscp={dscp}")?;
            }
            if ecn != Ecn::NotEct {
                write!(f, " ecn={}", ecn.bits())?;
            }
            if whole {
                f.write_str(" df")?;
            }
            if !step.pause.is_zero() {
                write!(f, "; pause {}", step.pause)?;
            }
        }
        Ok(())
    }
}

impl FromStr for Program {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Program, ProgramError> {
        let mut steps: Vec<Step> = Vec::new();
        for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            let unreadable = |why: String| ProgramError::Unreadable {
                part: part.into(),
                why,
            };
            if let Some(pause) = part.strip_prefix("pause") {
                let pause: Duration = pause
                    .trim()
                    .parse()
                    .map_err(|e| unreadable(format!("{e}")))?;
                let Some(step) = steps.last_mut() else {
                    return Err(unreadable("a pause follows a step".into()));
                };
                step.pause += pause;
            } else {
                steps.push(step(part).map_err(unreadable)?);
            }
        }
        Program::new(steps)
    }
}

fn step(text: &str) -> Result<Step, String> {
    let number = |what: &str, text: &str| -> Result<u64, String> {
        let text = text.trim();
        text.parse()
            .map_err(|_| format!("{what} \"{text}\" is not a whole number"))
    };
    let mut marking = Marking::NONE;
    let mut rest = text;
    // Options stand at the end, separated by spaces.
    while let Some((before, word)) = rest.rsplit_once(char::is_whitespace) {
        match word.split_once('=') {
            None if word == "df" => marking.whole = true,
            Some(("dscp", value)) => {
                marking.dscp = u8::try_from(number("dscp", value)?)
                    .ok()
                    .filter(|d| *d < 64)
                    .ok_or("dscp is 0 to 63")?;
            }
            Some(("ecn", value)) => {
                let bits = u8::try_from(number("ecn", value)?).ok().filter(|b| *b < 4);
                marking.ecn = Ecn::from_bits(bits.ok_or("ecn is 0 to 3")?);
            }
            _ => break,
        }
        rest = before.trim_end();
    }
    let (times, shots) = match rest.split_once('x') {
        Some((times, shots)) => (number("the count", times)?, shots),
        None => (1, rest),
    };
    let shots = shots
        .split(',')
        .map(|shot| {
            let (payload, gap) = shot.split_once('@').unwrap_or((shot, "0"));
            let payload = number("the size", payload)?;
            Ok(Shot {
                payload: u32::try_from(payload)
                    .map_err(|_| format!("size {payload} is too large"))?,
                gap: gap.trim().parse().map_err(|e| format!("{e}"))?,
            })
        })
        .collect::<Result<_, String>>()?;
    Ok(Step {
        marking,
        ..Step::new(times, shots)
    })
}

impl TryFrom<String> for Program {
    type Error = ProgramError;
    fn try_from(text: String) -> Result<Program, ProgramError> {
        text.parse()
    }
}
impl From<Program> for String {
    fn from(p: Program) -> String {
        p.to_string()
    }
}

/// Next programs to send: one, or several at once from as many sockets.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    /// Purpose in the terms of its experiment; stored with its trains.
    pub stage: String,
    /// Direction of the trains.
    pub direction: Direction,
    /// Programs that are sent at once.
    pub programs: Vec<Program>,
    /// Silence before it, so that queues drain.
    pub rest: Duration,
}

/// Fragments of a train that passed a host's interface, by their place in the datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragments {
    /// Datagrams that passed unfragmented.
    pub whole: u64,
    /// First fragments.
    pub first: u64,
    /// Further fragments.
    pub second: u64,
    /// Third and later fragments.
    pub further: u64,
}

/// Facts of a train besides its datagrams; stored as the event `train` of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Name of the stage.
    pub stage: String,
    /// Direction of the train.
    pub direction: Direction,
    /// Program that was sent.
    pub program: Program,
    /// IP and UDP headers of each datagram, bytes.
    pub headers: u32,
    /// Datagrams that the sending host refused: its queue was full, or they exceeded the interface's MTU.
    pub refused: u64,
    /// Datagrams that the receiving host dropped for lack of buffer space.
    pub overflowed: u64,
    /// Fragments sent; null if the host could not watch its interface.
    pub fragments_sent: Option<Fragments>,
    /// Fragments at the receiver; none if it may not count them.
    pub fragments_received: Option<Fragments>,
}

/// Fate of one datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Send time on the sender's clock, ns; null if it was never sent.
    pub sent_ns: Option<i64>,
    /// Arrival time on the receiver's clock, ns; null if it never arrived.
    pub received_ns: Option<i64>,
    /// ECN bits on arrival.
    pub ecn: Option<u8>,
}

/// Program as executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Train {
    /// Number within the recording.
    pub number: i64,
    /// Facts about the train.
    pub facts: Facts,
    /// Fates, indexed by the datagram's number in the program.
    pub fates: Vec<Fate>,
}

impl Train {
    /// Creates a train without datagrams.
    pub fn new(number: i64, facts: Facts) -> Train {
        let count = facts.program.count() as usize;
        Train {
            number,
            facts,
            fates: vec![Fate::default(); count],
        }
    }

    /// Number of datagrams sent.
    pub fn sent(&self) -> u64 {
        self.fates.iter().filter(|f| f.sent_ns.is_some()).count() as u64
    }

    /// Returns the number of datagrams that were sent and did not arrive.
    pub fn lost(&self) -> u64 {
        self.losses().filter(|lost| *lost).count() as u64
    }

    /// Returns one value per datagram sent, in send order: true if it did not arrive.
    pub fn losses(&self) -> impl Iterator<Item = bool> + '_ {
        let sent = self.fates.iter().filter(|f| f.sent_ns.is_some());
        sent.map(|f| f.received_ns.is_none())
    }

    /// Iterates over the datagrams in send order, each with its fate.
    pub fn datagrams(&self) -> impl Iterator<Item = (Due, Fate)> + '_ {
        self.facts
            .program
            .datagrams()
            .zip(self.fates.iter().copied())
    }

    /// Iterates over number and one-way delay (ns) of each datagram that arrived; the two clocks are not corrected.
    pub fn delays(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        let delay = |(i, f): (usize, &Fate)| Some((i, f.received_ns? - f.sent_ns?));
        self.fates.iter().enumerate().filter_map(delay)
    }

    /// Returns the send time of the first datagram that left, ns.
    pub fn began_ns(&self) -> Option<i64> {
        self.fates.iter().find_map(|f| f.sent_ns)
    }

    /// Returns rows for a recording: one per datagram sent, and the event with the train's facts.
    pub fn rows(&self, now_ns: i64) -> (Vec<Datagram>, Event) {
        let headers = u64::from(self.facts.headers);
        let rows = self
            .datagrams()
            .filter_map(|(due, fate)| {
                Some(Datagram {
                    sent_ns: fate.sent_ns?,
                    seq: due.seq as i64,
                    train: self.number,
                    direction: self.facts.direction,
                    size_bytes: (u64::from(due.payload) + headers) as i64,
                    received_ns: fate.received_ns,
                    ecn: fate.ecn.map(i64::from),
                })
            })
            .collect();
        let detail = serde_json::to_string(&self.facts).expect("facts are plain data");
        let event = Event {
            t_ns: now_ns,
            kind: "train".into(),
            subject: self.number.to_string().as_str().into(),
            detail: detail.as_str().into(),
        };
        (rows, event)
    }

    /// Returns the trains of a recording, in order. Events that this version cannot read are skipped.
    pub fn all_of(recording: &Recording) -> Vec<Train> {
        let trains = recording.event.iter().filter(|e| &*e.kind == "train");
        let mut all: BTreeMap<i64, Train> = trains
            .filter_map(|e| {
                let number = e.subject.parse().ok()?;
                Some((
                    number,
                    Train::new(number, serde_json::from_str(&e.detail).ok()?),
                ))
            })
            .collect();
        for row in &recording.datagram {
            let fate = all
                .get_mut(&row.train)
                .and_then(|t| t.fates.get_mut(usize::try_from(row.seq).ok()?));
            if let Some(fate) = fate {
                *fate = Fate {
                    sent_ns: Some(row.sent_ns),
                    received_ns: row.received_ns,
                    ecn: row.ecn.and_then(|e| u8::try_from(e).ok()),
                };
            }
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_step() -> impl Strategy<Value = Step> {
        let amount = || prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>(), 0u64..2000];
        let shot = (amount(), amount()).prop_map(|(payload, gap)| Shot {
            payload: payload as u32,
            gap: Duration::from_nanos(gap),
        });
        let shots = prop::collection::vec(shot, 0..300);
        (amount(), shots, amount()).prop_map(|(times, shots, pause)| {
            Step::new(times, shots).then_pause(Duration::from_nanos(pause))
        })
    }

    proptest! {
        /// A lying server caused zero rates, and steps of centuries followed from them.
        #[test]
        fn any_steps_become_a_program_within_the_limits(steps in prop::collection::vec(any_step(), 0..80)) {
            let program = Program::within(steps.clone());
            prop_assert!(program.count() >= 1 && program.time() <= LONGEST);
            if let Ok(as_asked) = Program::new(steps) {
                prop_assert_eq!(program, as_asked);
            }
        }
    }

    #[test]
    fn a_rate_of_nothing_is_no_panic() {
        let step = Step::steady(1452, BitsPerSec::ZERO, Duration::from_secs(10));
        assert!(Program::of(step).time() <= LONGEST);
    }

    #[test]
    fn pattern_one_and_a_burst_are_due_when_they_say() {
        let p: Program = "2 x 1452, 726@7 ms; pause 1 s; 3 x 50".parse().unwrap();
        let due: Vec<(u64, u64, u32)> = p
            .datagrams()
            .map(|d| (d.seq, d.at.as_nanos() / 1_000_000, d.payload))
            .collect();
        assert_eq!(
            due,
            [
                (0, 0, 1452),
                (1, 0, 726),
                (2, 7, 1452),
                (3, 7, 726),
                (4, 1014, 50),
                (5, 1014, 50),
                (6, 1014, 50)
            ]
        );
        assert_eq!((p.count(), p.time()), (7, Duration::from_millis(1014)));
        // 2 × (1480 + 754) + 3 × 78.
        assert_eq!(p.bytes(28), Bytes::new(4702));
    }

    #[test]
    fn a_steady_step_has_the_rate_it_was_asked_for() {
        // 1452 × 8 bits at 2 Mbit/s: 5.808 ms; 10 s hold 1721 of them.
        let step = Step::steady(1452, BitsPerSec::from_mbps(2), Duration::from_secs(10));
        assert_eq!(step.shots[0].gap, Duration::from_nanos(5_808_000));
        assert_eq!(step.times, 1721);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_value() {
        for (text, part) in [
            ("", "no datagram"),
            ("0 x 50", "no datagram"),
            ("5 x 19", "19 bytes"),
            ("5 x 65508", "65508"),
            ("1000001 x 50", "1000001"),
            ("5 x 50@800 s", "4000 s"),
            ("5 x 50@7", "\"5 x 50@7\""),
            ("5 x 50 dscp=64", "0 to 63"),
            ("pause 1 s", "follows a step"),
            ("5 y 50", "not a whole number"),
        ] {
            let e = text.parse::<Program>().unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
    }

    fn a_step() -> impl Strategy<Value = Step> {
        let shot = (20u32..3000, 0u64..10_000_000).prop_map(|(payload, gap)| Shot {
            payload,
            gap: Duration::from_nanos(gap),
        });
        let marking = (0u8..64, 0u8..4, any::<bool>()).prop_map(|(dscp, ecn, whole)| Marking {
            dscp,
            ecn: Ecn::from_bits(ecn),
            whole,
        });
        (
            prop::collection::vec(shot, 1..5),
            1u64..50,
            marking,
            0u64..2_000_000_000,
        )
            .prop_map(|(shots, times, marking, pause)| Step {
                shots,
                times,
                marking,
                pause: Duration::from_nanos(pause),
            })
    }

    proptest! {
        #[test]
        fn a_program_reads_back_the_same_and_its_sums_are_those_of_its_datagrams(steps in prop::collection::vec(a_step(), 1..4)) {
            let p = Program::new(steps).unwrap();
            prop_assert_eq!(&p.to_string().parse::<Program>().unwrap(), &p);
            let all: Vec<Due> = p.datagrams().collect();
            prop_assert_eq!(all.len() as u64, p.count());
            prop_assert!(all.iter().enumerate().all(|(i, d)| d.seq == i as u64));
            prop_assert!(all.windows(2).all(|w| w[0].at <= w[1].at));
            prop_assert_eq!(all.iter().map(|d| u64::from(d.payload + 48)).sum::<u64>(), p.bytes(48).get());
            prop_assert!(all.last().unwrap().at <= p.time());
        }

        #[test]
        fn a_train_survives_the_way_through_a_recording(
            steps in prop::collection::vec(a_step(), 1..3),
            fates in prop::collection::vec((any::<bool>(), prop::option::of(0i64..1_000_000), 0u8..4), 200),
        ) {
            let facts = Facts {
                stage: "a".into(),
                direction: Direction::Down,
                program: Program::new(steps).unwrap(),
                headers: 48,
                refused: 1,
                overflowed: 2,
                fragments_sent: None,
                fragments_received: Some(Fragments { whole: 3, first: 2, second: 1, further: 0 }),
            };
            let mut train = Train::new(7, facts);
            for ((i, fate), (sent, received, ecn)) in train.fates.iter_mut().enumerate().zip(fates) {
                if sent {
                    *fate = Fate { sent_ns: Some(i as i64), received_ns: received, ecn: received.map(|_| ecn) };
                }
            }
            let (rows, event) = train.rows(5);
            let recording = Recording { datagram: rows, event: vec![event], ..Recording::default() };
            prop_assert_eq!(Train::all_of(&recording), vec![train]);
        }
    }
}
