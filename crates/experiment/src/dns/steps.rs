//! Lookups at each resolver in turn, beside probes of the link: of names that no cache has and of the same again, then what
//! the resolver makes of signatures and of types of records.
//!
//! The round trip to a resolver is timed apart, by TCP connections to its port, which its kernel answers even if it
//! refuses them. The rest of a lookup is the resolver's own.

use super::Params;
use super::message::Manner;
use super::resolvers::{Resolver, chosen, root_servers};
use super::{asked_roots as roots, asked_types as types};
use crate::ask::{Ask, Kind, Opening, Trouble};
use crate::course::{Course, OfCourse};
use crate::host::{Probing, Stopped};
use crate::spec::Setting;
use crate::steps::Action;
use base::noted::dns::{Answer, Asked, DnsNote, way_target};
use base::{Bytes, Duration, Time};
use domain::base::iana::Rtype;

/// Interval of the probes of the link.
const BASE_EVERY: Duration = Duration::from_millis(100);
/// Lookups without an answer in a row after which a resolver is no longer asked.
const GIVEN_UP_AFTER: u32 = 5;
/// Limit on a connection to a resolver's port; later, it counts as filtered.
const WAY_WITHIN: Duration = Duration::from_secs(1);
/// Upper limit on one lookup's traffic: a query, the largest answer, a refused connection.
const LOOKUP: u64 = 1700;

/// Nothing is sent before the resolvers are known, and the budget with them.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let setting = *setting;
    Ok(OfCourse::new(Duration::ZERO, move |course| {
        events(course, params, setting)
    })
    .ended_by(|course| async move {
        course.act(Action::StopProbes).await;
        Ok(())
    }))
}

async fn events(course: Course, params: Params, setting: Setting) -> Result<(), Stopped> {
    let configured = match &params.resolvers[..] {
        [] => match course.ask(Ask::Resolvers).await {
            Some(crate::ask::Answer::Resolvers(configured)) => Some(configured),
            _ => None,
        },
        _ => None,
    };
    let resolvers = chosen(&params, configured)?;
    let roots = root_servers(&params);
    let plan = Plan {
        params,
        resolvers,
        roots,
    };
    let whole = plan.time();
    let probes = (whole.as_nanos() / BASE_EVERY.as_nanos()).max(1);
    let probes = Bytes::new(2 * probes * course.probe_size().get());
    setting.afford("dns", plan.cost() + probes)?;
    course.takes(whole);
    course
        .act(Action::Probe(Probing {
            interval: BASE_EVERY,
            shortest: BASE_EVERY,
        }))
        .await;
    let mut run = Run {
        due: course.now(),
        course,
        plan,
    };
    run.all().await?;
    run.course.act(Action::StopProbes).await;
    Ok(())
}

/// Resolvers to ask, and how.
pub(super) struct Plan {
    /// Parameters of the user.
    pub params: Params,
    resolvers: Vec<Resolver>,
    /// Root servers to ask; none unless the user wants it.
    pub roots: Vec<Resolver>,
}

impl Plan {
    /// Upper limit on traffic.
    fn cost(&self) -> Bytes {
        let signed = if self.params.dnssec { 3 } else { 0 };
        let each = u64::from(self.params.count) * 3 + signed;
        let types = if self.params.types {
            types::QUESTIONS
        } else {
            0
        };
        let roots = self.roots.len() as u64 * 3;
        Bytes::new((self.resolvers.len() as u64 * (each + types) + roots) * LOOKUP)
    }

    /// Time that it takes if all answer soon.
    fn time(&self) -> Duration {
        let signed = if self.params.dnssec { 3 } else { 0 };
        let each = u64::from(self.params.count) * 2 + signed;
        self.params.interval * (self.resolvers.len() as u64 * each)
    }
}

/// State of one resolver.
pub(super) struct Asker {
    /// Resolver that is asked.
    pub resolver: Resolver,
    /// Number of its socket.
    pub socket: u32,
    /// Lookups and connections without an answer, in a row.
    silent: u32,
    ways_lost: u32,
    /// True once it is no longer asked.
    pub left_alone: bool,
    lookups: i64,
    ways: i64,
}

/// Outcome of a lookup.
struct Fate {
    began_ns: i64,
    rtt: Option<Duration>,
    answer: Option<Answer>,
    problem: Option<String>,
}

/// Run of the experiment.
pub(super) struct Run {
    /// Connection to the loop.
    pub course: Course,
    /// Plan of the run.
    pub plan: Plan,
    /// Earliest time of the next lookup.
    due: Time,
}

impl Run {
    async fn all(&mut self) -> Result<(), Stopped> {
        let mut askers = self.askers().await?;
        for _ in 0..self.plan.params.count {
            for asker in &mut askers {
                let label = self.course.random(8).await;
                let label: String = label.iter().map(|b| char::from(b'a' + b % 26)).collect();
                let name = format!("tailback-{label}.{}", self.plan.params.zone);
                self.way(asker).await;
                self.lookup(asker, Asked::Cold, &name).await?;
                self.lookup(asker, Asked::Warm, &name).await?;
            }
        }
        if self.plan.params.dnssec {
            let signed = self.plan.params.signed.clone();
            let bogus = self.plan.params.bogus.clone();
            for asker in &mut askers {
                self.lookup(asker, Asked::Signed, &signed).await?;
                self.lookup(asker, Asked::Bogus, &bogus).await?;
                self.lookup(asker, Asked::BogusUnchecked, &bogus).await?;
            }
        }
        if self.plan.params.types {
            for asker in &askers {
                types::ask(self, asker).await?;
            }
        }
        roots::ask(self).await
    }

    async fn askers(&self) -> Result<Vec<Asker>, Stopped> {
        let mut askers = Vec::new();
        for (i, resolver) in self.plan.resolvers.iter().enumerate() {
            let text = resolver.text();
            let note = DnsNote::Resolver {
                origin: resolver.origin,
                name: resolver.name.clone(),
            };
            self.course.note(&note, &text).await;
            let opening = Opening::towards(i as u32, resolver.address);
            let opened = self.course.open(opening).await;
            opened.map_err(|e| Stopped::Unusable {
                why: format!("cannot open a socket to the resolver {text}: {}", e.text),
            })?;
            askers.push(Asker {
                resolver: resolver.clone(),
                socket: i as u32,
                silent: 0,
                ways_lost: 0,
                left_alone: false,
                lookups: 0,
                ways: 0,
            });
        }
        Ok(askers)
    }

    /// Round trip to the resolver.
    async fn way(&self, asker: &mut Asker) {
        if asker.left_alone || asker.ways_lost >= GIVEN_UP_AFTER {
            return;
        }
        let connected = self.course.connect(asker.resolver.address, WAY_WITHIN);
        let connected = connected.await;
        // A refusal comes from there as well.
        let answered = match &connected.made {
            Ok(()) => true,
            Err(e) => e.kind == Kind::Refused,
        };
        asker.ways_lost = if answered { 0 } else { asker.ways_lost + 1 };
        let target = way_target(&asker.resolver.text());
        let took = answered.then_some(connected.took);
        let began_ns = connected.began_ns;
        self.course.delay(&target, asker.ways, began_ns, took).await;
        asker.ways += 1;
    }

    async fn lookup(&mut self, asker: &mut Asker, asked: Asked, name: &str) -> Result<(), Stopped> {
        let resolver = asker.resolver.text();
        if asker.left_alone {
            return Ok(());
        }
        let wait = self.due.saturating_since(self.course.now());
        if !wait.is_zero() {
            self.course.wait(wait).await;
        }
        self.course.stage(&resolver).await;
        self.due = self.course.now() + self.plan.params.interval;
        let fate = self.ask(asker, asked, name).await?;
        let timed = matches!(asked, Asked::Cold | Asked::Warm);
        let seq = if timed { asker.lookups } else { 0 };
        if asked == Asked::Warm {
            asker.lookups += 1;
        }
        if timed {
            let target = asked.target(&resolver);
            self.course
                .delay(&target, seq, fate.began_ns, fate.rtt)
                .await;
        }
        asker.silent = match fate.answer {
            Some(_) => 0,
            None => asker.silent + 1,
        };
        let note = DnsNote::Lookup {
            asked,
            seq,
            name: name.to_owned(),
            answer: fate.answer,
            problem: fate.problem,
        };
        self.course.note(&note, &resolver).await;
        // While signatures are asked about, silence is an answer of its own.
        if timed && asker.silent >= GIVEN_UP_AFTER {
            asker.left_alone = true;
            let after = asker.silent;
            self.course
                .note(&DnsNote::GivenUp { after }, &resolver)
                .await;
        }
        Ok(())
    }

    async fn ask(&self, asker: &Asker, asked: Asked, name: &str) -> Result<Fate, Stopped> {
        let manner = Manner {
            signatures: !matches!(asked, Asked::Cold | Asked::Warm),
            unchecked: asked == Asked::BogusUnchecked,
            ..Manner::default()
        };
        let question = types::question(&self.course, name, Rtype::A, manner).await?;
        let (began, began_ns) = (self.course.now(), self.course.unix_ns());
        let mut fate = Fate {
            began_ns,
            rtt: None,
            answer: None,
            problem: None,
        };
        let (socket, far) = (asker.socket, asker.resolver.address);
        let sent = self.course.send(socket, far, question.bytes.clone()).await;
        if let Err(e) = sent {
            fate.problem = Some(problem(&e));
            return Ok(fate);
        }
        let patience = self.plan.params.patience;
        let is_it = |bytes: &[u8], _| question.read(bytes);
        match self.course.hear(socket, (patience, false), is_it).await {
            Ok(answer) => {
                fate.answer = Some(answer);
                fate.rtt = Some(self.course.now().saturating_since(began));
            }
            Err(e) if e.kind == Kind::Silence => {}
            Err(e) => fate.problem = Some(problem(&e)),
        }
        Ok(fate)
    }
}

/// Reason why an answer is missing, in words.
pub(super) fn problem(e: &Trouble) -> String {
    match e.kind {
        Kind::Refused => "nothing listens there (ICMP port unreachable)".to_owned(),
        Kind::NoRoute => "no route leads there".to_owned(),
        _ => e.text.clone(),
    }
}
