//! `tailback probe`: one experiment, one question.

#[cfg(target_os = "linux")]
mod carry;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod host;
#[cfg(target_os = "linux")]
mod host;
mod simulated;

use crate::links::links_json;
use crate::progress::{Event as News, Observer, Shared};
use crate::session::{End, Session, towards};
use crate::{LogIn, Progress, usage};
use base::record::{FORMAT_VERSION, Meta, Origin};
use base::{BitsPerSec, Bytes, Duration};
use experiment::{Others, ProbeAnswer, ProbeSpec};
use link::LinkSpec;
use live::clock::Clock;
use live::load::Access;
use live::outlet::Outlet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Question to a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Kind with its parameters.
    pub probe: ProbeSpec,
    /// Server as the user names it; none with emulated links.
    #[serde(default)]
    pub server: Option<String>,
    /// Emulated links, near end first, with a router between one and the next.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// Seed of a run in virtual time over the one link; none for a run in real time.
    #[serde(default)]
    pub virtual_seed: Option<u64>,
    /// Rate of random cross traffic on the emulated uplink.
    #[serde(default)]
    pub others: Option<BitsPerSec>,
    /// Upper limit on traffic, both directions combined.
    pub budget: Bytes,
    /// Interface that all sockets are bound to, and whose counters show cross traffic; by default the one towards the server.
    #[serde(default)]
    pub interface: Option<String>,
    /// Longest wait for cross traffic to end; without it the run gives up at once.
    #[serde(default)]
    pub hold_off: Option<Duration>,
    /// True to wait while another client loads the server's uplink.
    #[serde(default = "yes")]
    pub waits: bool,
    /// True to continue when there is cross traffic.
    #[serde(default)]
    pub beside_others: bool,
    /// Addresses beside the server's that the probe may send to, if the server names them.
    #[serde(default)]
    pub also: Vec<IpAddr>,
    /// True to use one version of IP only.
    #[serde(default)]
    pub ipv4: bool,
    #[serde(default)]
    pub ipv6: bool,
    /// Name of the run in its report.
    #[serde(default)]
    pub title: Option<String>,
    /// Recording to write; by default its name is the current time.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// Treatment of log-in pages.
    #[serde(skip)]
    pub log_in: LogIn,
}

fn yes() -> bool {
    true
}

impl Plan {
    /// Plan as `meta.json` stores it.
    ///
    /// # Errors
    /// A link that is no JSON, which cannot happen.
    pub fn recorded(&self) -> anyhow::Result<serde_json::Value> {
        let mut plan = serde_json::json!({
            "probe": self.probe,
            "server": self.server.as_deref().unwrap_or("embedded"),
            "link": links_json(&self.links)?,
            "others": self.others,
            "budget": self.budget,
            "hold_off": self.hold_off,
            "beside_others": self.beside_others,
            "also": self.also,
        });
        if let Some(seed) = self.virtual_seed {
            plan["virtual_seed"] = seed.into();
        }
        Ok(plan)
    }

    /// Policy towards cross traffic. A private link without added cross traffic carries nothing but the run's own packets,
    /// so none of them is suspected.
    fn policy(&self) -> Others {
        let private = self.server.is_none() && self.others.is_none();
        match self.beside_others || self.probe.kind().beside_others {
            true => Others::Welcome,
            false if private => Others::Nobody,
            false => Others::Keep(self.hold_off.unwrap_or_default()),
        }
    }

    /// The plan of a recording.
    pub(crate) fn of_recorded(plan: &serde_json::Value) -> Result<Plan, serde_json::Error> {
        let recorded: Recorded = serde_json::from_value(plan.clone())?;
        let links = match recorded.link {
            None => Vec::new(),
            Some(OneOrMany::One(link)) => vec![*link],
            Some(OneOrMany::Many(links)) => links,
        };
        Ok(Plan {
            probe: recorded.probe,
            server: links.is_empty().then_some(recorded.server),
            links,
            virtual_seed: recorded.virtual_seed,
            others: recorded.others,
            budget: recorded.budget,
            interface: None,
            hold_off: recorded.hold_off,
            waits: true,
            beside_others: recorded.beside_others,
            also: recorded.also,
            ipv4: false,
            ipv6: false,
            title: None,
            output: None,
            log_in: LogIn::default(),
        })
    }
}

#[derive(Deserialize)]
struct Recorded {
    probe: ProbeSpec,
    server: String,
    link: Option<OneOrMany>,
    #[serde(default)]
    virtual_seed: Option<u64>,
    others: Option<BitsPerSec>,
    budget: Bytes,
    hold_off: Option<Duration>,
    beside_others: bool,
    #[serde(default)]
    also: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Box<LinkSpec>),
    Many(Vec<LinkSpec>),
}

/// Figures of a probe.
pub struct Answer {
    pub figures: ProbeAnswer,
    pub meta: Meta,
    pub end: End,
}

/// Plan whose server is resolved and whose namespaces can be made; it may run more than once.
pub struct Ready<'p> {
    plan: &'p Plan,
    /// Access as it was given, and with the addresses of the server's name.
    given: Access,
    access: Access,
    server: Option<SocketAddr>,
}

/// Resolves the server, or prepares this process for emulated links. In the second case the process must have a single
/// thread.
///
/// # Errors
/// A server that is not found, links that this user may not emulate.
pub fn ready<'p>(plan: &'p Plan, access: &Access) -> anyhow::Result<Ready<'p>> {
    let mut given = access.clone();
    if plan.server.is_some() {
        given.outlet = Outlet::of(plan.interface.as_deref());
    }
    let mut access = given.clone();
    access.also.extend(&plan.also);
    let server = match (&plan.server, &plan.links[..]) {
        (Some(_), [_, ..]) => return Err(usage("give a server or links, not both")),
        (None, []) => return Err(usage("give a server, or links to emulate")),
        (None, _) if plan.virtual_seed.is_some() => None,
        (None, _) => {
            host::prepare()?;
            None
        }
        (Some(name), []) => {
            let port = measure::control::DEFAULT_PORT;
            let (server, all) = live::resolve::host(name, port, plan.ipv4, plan.ipv6)?;
            access.also.extend(all);
            Some(server)
        }
    };
    Ok(Ready {
        plan,
        given,
        access,
        server,
    })
}

/// Runs the experiment once.
///
/// # Errors
/// Errors of [`ready`] and [`Ready::run`].
pub fn run(plan: &Plan, access: &Access, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    ready(plan, access)?.run(progress)
}

impl Ready<'_> {
    /// Runs the experiment, into a new recording.
    ///
    /// # Errors
    /// A run that gave no figures; a log-in page in place of the server or of a page.
    pub fn run(&self, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
        let shared = Shared::new(progress);
        let observer: &dyn Observer = &shared;
        let Some(server) = &self.plan.server else {
            return self.once(observer);
        };
        host::run(self, server, observer)
    }

    fn once(&self, observer: &dyn Observer) -> anyhow::Result<Answer> {
        observer.tell(News::Interruptible);
        let plan = self.plan;
        let session = Session::start(plan.output.as_deref(), |clock| meta(plan, clock))?;
        let kind = plan.probe.kind();
        observer.say(&format!("{} Takes {}.", kind.entry.summary, kind.takes));
        if kind.comes_near_budget {
            observer.say(&format!(
                "Sends at most {:.3} in all (--budget).",
                plan.budget
            ));
        }
        if let Some(warning) = plan.probe.warning() {
            observer.warn(warning);
        }
        let (result, ended_ns) = match plan.virtual_seed {
            None => (host::measure(self, &session, observer), None),
            Some(seed) => {
                let mut watch = session.watch(observer);
                simulated::carry_out(plan, seed, &session, &mut watch)
            }
        };
        observer.tell(News::Finished);
        let mut closed = session.finish_at(&result, ended_ns);
        let r = &closed.recording;
        let name = kind.entry.name;
        let nothing = r.datagram.is_empty()
            && r.delay.is_empty()
            && !r.event.iter().any(|e| &*e.kind == name);
        let result = match (nothing, result) {
            (true, Err(why)) => return Err(closed.abandon(why)),
            (_, result) => result,
        };
        let figures = experiment::analyse(&closed.recording)?;
        let meta = std::mem::take(&mut closed.recording).meta;
        let page = report::probe::page(&figures, &meta);
        Ok(Answer {
            figures,
            meta,
            end: closed.end(result, "probe", &page),
        })
    }
}

fn meta(plan: &Plan, clock: Clock) -> anyhow::Result<Meta> {
    let names: Vec<&str> = plan.links.iter().map(|l| l.name.as_str()).collect();
    let title = plan
        .title
        .clone()
        .unwrap_or_else(|| match (&plan.server, &names[..]) {
            (Some(server), _) => towards(server, plan.interface.as_deref()),
            (None, [name]) if plan.virtual_seed.is_some() => format!("Simulated link {name}"),
            (None, [name]) => format!("Emulated link {name}"),
            (None, names) => format!("Emulated links {}", names.join(", ")),
        });
    let known_link = match &plan.links[..] {
        [] => None,
        links => Some(serde_json::json!({ "link": links_json(links)? })),
    };
    Ok(Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: match plan.links[..] {
            [] => Origin::Measured,
            _ if plan.virtual_seed.is_some() => Origin::Simulated,
            _ => Origin::Emulated,
        },
        verb: "probe".into(),
        title,
        started_ns: match plan.virtual_seed {
            Some(_) => sim::bufferbloat::EPOCH_NS,
            None => clock.unix_ns(),
        },
        plan: plan.recorded()?,
        known_link,
        host: live::host::facts(plan.interface.as_deref()),
        ..Meta::default()
    })
}
