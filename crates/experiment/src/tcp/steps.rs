//! Transfers of given sizes by given controllers, one after the other, each sampled while it runs, beside a slow flow of
//! datagrams.
//!
//! The sender's initial window and offload are changed only if its network namespace is ours. Samples are rows of the
//! table `flow`, one number a transfer; an event of the kind `tcp` describes each.

use super::{Control, Offload, Params};
use crate::ask::{Ask, Broken, Refused, SenderSettings, Transfer, Transferred};
use crate::course::{Course, OfCourse};
use crate::host::{Counted, Probing, Stopped};
use crate::run::TURN;
use crate::spec::{Far, Setting};
use crate::steps::{Action, Stage};
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::Refusal;
use serde_json::{Value, json};

/// Interval of the samples of a transfer.
const SAMPLE: Duration = Duration::from_millis(20);
/// Interval of the probes beside the transfers.
const SESSION: Duration = Duration::from_millis(100);
/// Longest pause in which nothing moves: pauses of up to 260 s were seen on GPRS (Chandele 2012, section 5.1.3).
const PATIENCE: Duration = Duration::from_secs(300);
/// Pause between two transfers, in which queues drain.
const REST: Duration = Duration::from_millis(300);
/// Interval of the checks for cross traffic, between two transfers.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Limits on a download, which lasts as long as it takes at [`SLOWEST`] between them: the server samples a flow the less
/// often the longer it may last.
const AT_LEAST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(600);
/// Bytes a second; GPRS made five thousand (Chandele 2012, table 5.2.1).
const SLOWEST: u64 = 4000;

/// Advice where a server refuses every transfer of a given size.
const OLD: &str = "the server is of a release before this and sends no transfers of a given size: update it, or ask for direction=up";

/// # Errors
/// None: the budget bounds the number of transfers.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let setting = *setting;
    let course = OfCourse::new(Duration::ZERO, move |course| async move {
        course.act(Action::Turn(TURN)).await;
        course.act(Action::Count(Counted::Interface)).await;
        course
            .act(Action::Probe(Probing {
                interval: SESSION,
                shortest: SESSION,
            }))
            .await;
        let run = Run {
            course,
            params,
            setting,
        };
        run.all().await;
        run.course.act(Action::StopProbes).await;
        Ok(())
    });
    Ok(course.ended_by(|course| async move {
        course.act(Action::StopProbes).await;
        Ok(())
    }))
}

struct Run {
    course: Course,
    params: Params,
    setting: Setting,
}

/// Downloads that the server will not do once it will not do them again: those by one controller, or all.
#[derive(PartialEq)]
enum Never {
    By(String),
    Any,
}

impl Run {
    async fn event(&self, subject: &str, detail: &str) {
        self.course.act(Action::event("tcp", subject, detail)).await;
    }

    async fn missing(&self, why: &str) {
        self.event("missing", why).await;
    }

    /// Controllers that the sender of a direction has, of those that are asked for; those that it lacks are noted.
    async fn controls(&self, direction: Direction) -> Vec<String> {
        let wanted = match self.params.control {
            Control::All => ["cubic", "reno", "bbr"].map(String::from).to_vec(),
            one => vec![one.word().to_string()],
        };
        let has = match self.course.ask(Ask::Controls(direction)).await {
            Some(crate::ask::Answer::Controls(Some(has))) => has,
            // A sender that does not say refuses each transfer if need be.
            _ => return wanted,
        };
        let (whose, how) = match direction {
            Direction::Up => ("this kernel", "; modprobe tcp_NAME may load it"),
            Direction::Down => ("the server's kernel", ""),
        };
        let (had, missing): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|n| has.contains(n));
        for name in missing {
            let has = has.join(", ");
            let why = format!("{name} is not in {whose}, which has {has}{how}");
            self.missing(&why).await;
        }
        had
    }

    /// Initial windows and offload to try; only the system's where the sender's network namespace is not ours.
    async fn senders(&self) -> (Vec<Option<u32>>, Vec<Option<bool>>) {
        let windows = match self.params.window.as_slice() {
            [] => vec![None],
            all => all.iter().copied().map(Some).collect(),
        };
        let offload = match self.params.offload {
            Offload::Both => vec![Some(true), Some(false)],
            Offload::System => vec![None],
        };
        if self.setting.far != Far::Elsewhere {
            return (windows, offload);
        }
        for (asked, what, how) in [
            (
                windows.iter().any(Option::is_some),
                "initial windows",
                "ip route change … initcwnd N",
            ),
            (
                offload.iter().any(Option::is_some),
                "offload",
                "ethtool -K … tso off gso off",
            ),
        ] {
            if asked {
                let why = format!(
                    "{what} stay as the system has them: to change them would change the sender's routes or interface for everybody on it. Set them there yourself ({how}), run this once for each, and compare the recordings"
                );
                self.missing(&why).await;
            }
        }
        (vec![None], vec![None])
    }

    /// Kinds in turn rather than one after the other: a link that changes meanwhile changes for all.
    async fn transfers(&self) -> Vec<(Transfer, SenderSettings)> {
        let (windows, offload) = self.senders().await;
        let mut ways = Vec::new();
        for &direction in self.params.direction.directions() {
            ways.push((direction, self.controls(direction).await));
        }
        let mut all = Vec::new();
        for _ in 0..self.params.repeats {
            for &size in &self.params.size {
                for &window in &windows {
                    for &offload in &offload {
                        for (direction, controls) in &ways {
                            for congestion in controls {
                                let number = all.len() as i64;
                                let transfer = transfer(number, *direction, congestion, size);
                                all.push((transfer, SenderSettings { window, offload }));
                            }
                        }
                    }
                }
            }
        }
        all
    }

    async fn all(&self) {
        let transfers = self.transfers().await;
        let costs = transfers.iter().map(|(t, _)| on_line(t.bytes));
        let whole = costs.fold(Bytes::ZERO, |sum, cost| sum + cost);
        let (count, budget) = (transfers.len(), self.setting.budget);
        let mut refused: Vec<Never> = Vec::new();
        let mut looked = self.course.now();
        for (t, sender) in &transfers {
            if self.course.now().saturating_since(looked) >= LOOK_EVERY {
                self.course.act(Action::LookForOthers(1)).await;
                looked = self.course.now();
            }
            let of_one = Never::By(t.congestion.clone());
            let down = t.direction == Direction::Down;
            if down && (refused.contains(&of_one) || refused.contains(&Never::Any)) {
                continue;
            }
            if self.course.tally() + on_line(t.bytes) > budget {
                let why = format!(
                    "{} of {count} transfers were made: the next one would exceed the budget of {budget:.3}",
                    t.number
                );
                self.missing(&why).await;
                return;
            }
            self.show(t, count, whole).await;
            if let Err(Refused { why, text }) = self.one(t, *sender).await {
                let (which, text) = match why {
                    Refusal::UnknownCongestion => (of_one, text),
                    Refusal::Malformed => (Never::Any, OLD.into()),
                    _ => (Never::Any, text),
                };
                self.missing(&format!("downloads: {text}")).await;
                refused.push(which);
            }
            self.course.wait(REST).await;
        }
    }

    /// Progress as a share of the bytes, for nobody knows how long they take.
    async fn show(&self, t: &Transfer, count: usize, whole: Bytes) {
        let stage = Stage {
            name: format!("{} {} by {}", t.bytes, t.direction.word(), t.congestion),
            number: 1,
            of_bytes: Some(whole),
            note: format!("{} of {count}", t.number + 1),
            ..Stage::default()
        };
        self.course.act(Action::Show(stage)).await;
    }

    /// # Errors
    /// The server refuses a download.
    async fn one(&self, t: &Transfer, sender: SenderSettings) -> Result<(), Refused> {
        let left = self.setting.budget.get();
        let t = Transfer {
            most: Bytes::new(left.saturating_sub(self.course.tally().get())),
            ..t.clone()
        };
        if sender != SenderSettings::default() {
            self.course.ask(Ask::Sender(t.direction, sender)).await;
        }
        let transferred = match self.course.ask(Ask::Transfer(t.clone())).await {
            Some(crate::ask::Answer::Transferred(transferred)) => transferred?,
            _ => return Ok(()),
        };
        let detail = self.detail(&t, sender, &transferred);
        self.event(&t.number.to_string(), &detail.to_string()).await;
        Ok(())
    }

    fn detail(&self, t: &Transfer, sender: SenderSettings, went: &Transferred) -> Value {
        let failed = went.failed.as_ref().map(|end| self.why(end));
        json!({
            "direction": t.direction,
            "congestion": went.congestion,
            "window_packets": went.window,
            "asked_window_packets": sender.window,
            "offload": sender.offload,
            "size_bytes": t.bytes.get(),
            "began_ns": went.began_ns,
            "took_ns": match failed {
                None => json!(went.took.as_nanos()),
                Some(_) => Value::Null,
            },
            "failed": failed,
            "retransmits": went.retransmits,
            "mss_bytes": went.mss,
            "break_ns": went.pause.as_nanos(),
            "break_began_ns": went.pause_began_ns,
        })
    }

    fn why(&self, end: &Broken) -> String {
        match end {
            Broken::TimeUp(allowed) => {
                format!("the server allows a transfer {allowed:.0} and no more")
            }
            Broken::Stalled => format!("nothing moved for {PATIENCE:.0}"),
            Broken::Enough => format!("the budget of {:.3} was spent", self.setting.budget),
            Broken::Closed => "the server closed the connection".into(),
            Broken::Stopped => "it was ended here".into(),
            Broken::Failed(why) => format!("the connection broke: {why}"),
        }
    }
}

fn transfer(number: i64, direction: Direction, congestion: &str, bytes: Bytes) -> Transfer {
    Transfer {
        number,
        direction,
        congestion: congestion.to_owned(),
        bytes,
        longest: match direction {
            Direction::Up => LONGEST,
            Direction::Down => (AT_LEAST + Duration::from_secs(bytes.get() / SLOWEST)).min(LONGEST),
        },
        pace: None,
        sample: SAMPLE,
        patience: PATIENCE,
        most: Bytes::ZERO,
    }
}

/// Estimate of a transfer's traffic, acknowledgements included.
fn on_line(size: Bytes) -> Bytes {
    Bytes::new(size.get() * 107 / 100)
}
