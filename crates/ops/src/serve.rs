//! `tailback serve`: the far end.

use crate::progress::{Event as News, Observer, Shared};
use crate::web;
use crate::{Progress, usage, write_file};
use anyhow::Context;
use base::{BitsPerSec, Bytes};
use live::privileges::{self, Target};
use live::serve::journal::Entry;
use live::serve::{
    AcmeConfig, Authority, Budgets, Guest, Keeper, Keys, MAX_UDP_RATE, Network, PortSet,
    ServeConfig, ServeError, Server, ServerStats, SiteName, TlsError, TlsKey, WebConfig, WebGuests,
    metrics,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Interval between two writes of the counters.
const METRICS_EVERY: Duration = Duration::from_secs(10);
/// Interval at which the server's notes and signals are looked after.
const LOOK: Duration = Duration::from_millis(200);

/// A server with its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Addresses and ports; all addresses and the usual port where none is given.
    #[serde(default)]
    pub listen: Vec<SocketAddr>,
    /// File of the users who are served; none serves everybody.
    #[serde(default)]
    pub keys: Option<PathBuf>,
    pub tls: Tls,
    /// True to refuse control messages outside TLS 1.3.
    #[serde(default)]
    pub tls_only: bool,
    /// Networks that are served; all where none is given.
    #[serde(default)]
    pub allow: Vec<Network>,
    /// Clients served at once.
    pub max_clients: usize,
    /// Bytes per hour of one client, and of all clients together, both directions combined.
    pub bytes_per_hour: Bytes,
    pub total_bytes_per_hour: Bytes,
    /// Ports that clients may have opened; none where not given.
    #[serde(default)]
    pub allow_listen: Option<PortSet>,
    /// True if clients may have their own packets captured.
    #[serde(default)]
    pub allow_capture: bool,
    /// Upper limit on what the server sends and asks for, both directions combined.
    #[serde(default)]
    pub max_rate: Option<BitsPerSec>,
    /// Upper limit on the sum of all UDP load and trains.
    pub max_udp_rate: BitsPerSec,
    /// Ports for the clients of other tools; none where not given.
    #[serde(default)]
    pub guests: Vec<Guest>,
    /// Site for browsers; none where not given.
    #[serde(default)]
    pub web: Option<Web>,
    /// File for the counters, in the text format of Prometheus.
    #[serde(default)]
    pub metrics: Option<PathBuf>,
    /// User to become once the ports are open, if started as root.
    pub user: String,
}

/// Site for browsers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Web {
    pub listen: SocketAddr,
    /// Certificate and private key of the operator, PEM; none makes one, or speaks plain HTTP at a loopback address.
    #[serde(default)]
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Authority that gives the certificate instead.
    #[serde(default)]
    pub acme: Option<Acme>,
    /// Directory for the recordings that users save; none keeps none.
    #[serde(default)]
    pub keep: Option<PathBuf>,
    /// Size of that directory above which nothing more is kept.
    pub keep_size: Bytes,
    /// Other tools whose tests the site takes.
    #[serde(default)]
    pub guests: WebGuests,
}

/// Certificate of the site from an authority, by ACME.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acme {
    pub authority: Authority,
    /// Names and addresses under which browsers reach the site.
    pub names: Vec<SiteName>,
    /// True if the operator agrees to the authority's terms of service.
    pub agreed: bool,
    /// Address for the authority's messages.
    #[serde(default)]
    pub contact: Option<String>,
    /// Further authority that may have signed the certificate of the directory itself, PEM.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Directory for the account's key, and for the certificate with its key.
    pub state: PathBuf,
}

/// Default of [`Web::keep_size`].
pub const KEEP_SIZE: Bytes = Bytes::new(1_000_000_000);

/// Origin of the server's TLS key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tls {
    /// Certificate and private key of the operator, PEM.
    Own { certificate: PathBuf, key: PathBuf },
    /// Key that the server makes and keeps in a directory. Unless it is required, a directory that cannot be written is no
    /// error: the key is then for this run only.
    Kept { directory: PathBuf, required: bool },
    /// Key for this run only.
    Fresh,
}

impl Default for Plan {
    fn default() -> Plan {
        let budgets = Budgets::default();
        Plan {
            listen: Vec::new(),
            keys: None,
            tls: Tls::Fresh,
            tls_only: false,
            allow: Vec::new(),
            max_clients: budgets.clients,
            bytes_per_hour: budgets.bytes_per_hour,
            total_bytes_per_hour: budgets.total_bytes_per_hour,
            allow_listen: None,
            allow_capture: false,
            max_rate: None,
            max_udp_rate: MAX_UDP_RATE,
            guests: Vec::new(),
            web: None,
            metrics: None,
            user: "nobody".into(),
        }
    }
}

impl Plan {
    fn config(&self, log: Option<SyncSender<Entry>>) -> ServeConfig {
        let usual = ServeConfig::default();
        ServeConfig {
            listen: match self.listen[..] {
                [] => usual.listen,
                _ => self.listen.clone(),
            },
            tls: match &self.tls {
                Tls::Own { certificate, key } => TlsKey::Own {
                    certificate: certificate.clone(),
                    key: key.clone(),
                },
                Tls::Kept { directory, .. } => TlsKey::KeptIn(directory.clone()),
                Tls::Fresh => TlsKey::Fresh,
            },
            tls_only: self.tls_only,
            keys: self.keys.clone().map(Keys::File),
            allow: self.allow.clone(),
            budgets: Budgets {
                clients: self.max_clients.max(1),
                bytes_per_hour: self.bytes_per_hour,
                total_bytes_per_hour: self.total_bytes_per_hour,
                ..usual.budgets
            },
            allow_listen: self.allow_listen.clone().unwrap_or_default(),
            allow_capture: self.allow_capture,
            max_rate: self.max_rate,
            max_udp_rate: self.max_udp_rate,
            guests: self.guests.clone(),
            web: self.web.as_ref().map(|w| WebConfig {
                listen: w.listen,
                certificate: w.certificate.clone(),
                acme: w.acme.as_ref().map(|a| AcmeConfig {
                    authority: a.authority.clone(),
                    ca: a.ca.clone(),
                    contact: a.contact.clone(),
                    names: a.names.clone(),
                    state: a.state.clone(),
                }),
                files: web::files(),
                keep: w
                    .keep
                    .clone()
                    .map(|directory| Keeper(Arc::new(web::Kept::new(directory, w.keep_size)))),
                guests: w.guests,
            }),
            log,
            ..usual
        }
    }
}

/// A server that runs.
pub struct Serving<'p> {
    plan: &'p Plan,
    server: Server,
    /// User that the process has become.
    became: Option<Target>,
    /// Reason why the TLS key could not be kept.
    unkept: Option<TlsError>,
}

/// Addresses and identity of a server that has started. Its JSON is that of `tailback serve --json`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Server")]
pub struct Started {
    /// Addresses and ports, UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Ports for the clients of other tools, UDP.
    pub guests: Vec<StartedGuest>,
    /// Address of the site for browsers; null without --web.
    pub web: Option<String>,
    /// Public key for --pin of clients; null without TLS.
    pub pin: Option<String>,
    /// True if only users with a key are served.
    pub needs_key: bool,
    /// User that the process has become; null if it kept its own.
    pub user: Option<String>,
}

/// Port for the clients of another tool.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StartedGuest {
    /// irtt or stamp.
    pub protocol: String,
    pub listen: SocketAddr,
}

/// Counters of a server that has ended.
pub struct Answer {
    pub stats: ServerStats,
}

impl Answer {
    /// The counters in the text format of Prometheus.
    pub fn text(&self) -> String {
        metrics::render(&self.stats)
    }
}

/// Opens the ports and gives up the rights of root. Entries of the log go to `log`; those that find no room are counted and
/// left out. It must run before other threads start.
///
/// # Errors
/// A port that cannot be opened, keys or certificates that cannot be read, a user that does not exist.
pub fn start(plan: &Plan, log: Option<SyncSender<Entry>>) -> anyhow::Result<Serving<'_>> {
    // Other tools' clients have no key of ours.
    if let (Some(guest), Some(_), []) = (plan.guests.first(), &plan.keys, &plan.allow[..]) {
        return Err(usage(format!(
            "with --keys, --{} would serve everybody without a key: name the networks of its clients by --allow",
            guest.protocol.name()
        )));
    }
    if plan.web.is_some() && !web::has_analysis() {
        return Err(usage(
            "--web: this program was built without the analysis for browsers, as `make demo` does. Run `make build`; it needs \
             `rustup target add wasm32-unknown-unknown`",
        ));
    }
    if let (Some(_), Some(_), []) = (&plan.web, &plan.keys, &plan.allow[..]) {
        return Err(usage(
            "with --keys, --web would serve every browser without a key: name the networks of its users by --allow",
        ));
    }
    let acme = plan.web.as_ref().and_then(|w| w.acme.as_ref());
    if acme.is_some_and(|a| !a.agreed) {
        return Err(usage(
            "--acme: the authority asks for agreement to its terms of service. Read them, then add --acme-agree",
        ));
    }
    let keep = plan.web.as_ref().and_then(|w| w.keep.as_ref());
    let mut config = plan.config(log);
    if privileges::is_root() && plan.user != "root" {
        config.user = Some(Target::find(&plan.user)?);
    }
    if let Some(acme) = acme {
        std::fs::create_dir_all(&acme.state)
            .and_then(|()| match &config.user {
                Some(user) => user.give(&acme.state),
                None => std::fs::set_permissions(&acme.state, Permissions::from_mode(0o700)),
            })
            .with_context(|| format!("cannot create {} (--state)", acme.state.display()))?;
    }
    let became = config.user.clone();
    let mut unkept = None;
    let started = match Server::start(config.clone()) {
        Err(ServeError::Tls(e @ TlsError::File { .. })) if may_be_fresh(&plan.tls) => {
            unkept = Some(e);
            config.tls = TlsKey::Fresh;
            Server::start(config)
        }
        other => other,
    };
    let server = started.map_err(|e| match e {
        ServeError::Keys(e) => usage(e.to_string()),
        ServeError::Tls(e) => usage(e.to_string()),
        e => e.into(),
    })?;
    if let Some(directory) = keep {
        may_write(directory, "recordings", "--web-keep")?;
    }
    if let Some(acme) = acme {
        may_write(&acme.state, "certificates", "--state")?;
    }
    Ok(Serving {
        plan,
        server,
        became,
        unkept,
    })
}

/// Checks that the user that the process has become may keep files.
fn may_write(directory: &Path, what: &str, option: &str) -> anyhow::Result<()> {
    let trial = directory.join(format!(".tailback-{}", std::process::id()));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&trial, b""))
        .and_then(|()| std::fs::remove_file(&trial))
        .with_context(|| {
            format!(
                "cannot keep {what} in {} ({option}): create it for the user that the server becomes (--user)",
                directory.display()
            )
        })
}

fn may_be_fresh(tls: &Tls) -> bool {
    matches!(
        tls,
        Tls::Kept {
            required: false,
            ..
        }
    )
}

/// Serves until somebody interrupts it.
///
/// # Errors
/// Errors of [`start`] and [`Serving::run`].
pub fn run(
    plan: &Plan,
    log: Option<SyncSender<Entry>>,
    progress: &mut dyn Progress,
) -> anyhow::Result<Answer> {
    start(plan, log)?.run(progress)
}

impl Serving<'_> {
    /// Tells where it listens, for whom, and with which key.
    pub fn started(&self) -> Started {
        let guest = |g: Guest| StartedGuest {
            protocol: g.protocol.name().to_owned(),
            listen: g.listen,
        };
        Started {
            listen: self.server.local_addrs().to_vec(),
            guests: self.server.guests().map(guest).collect(),
            web: self.server.web().map(str::to_owned),
            pin: self.server.pin().map(|pin| pin.to_string()),
            needs_key: self.plan.keys.is_some(),
            user: self.became.as_ref().map(|user| user.name().to_owned()),
        }
    }

    /// Serves until somebody interrupts it. A hang-up of the process, where it is caught, makes the keys be read again.
    ///
    /// # Errors
    /// Counters that cannot be written at the start.
    pub fn run(self, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
        let shared = Shared::new(progress);
        let observer: &dyn Observer = &shared;
        observer.tell(News::Interruptible);
        self.announce(observer);
        let mut written: Option<Instant> = None;
        while !observer.interrupted() {
            if let Some(path) = &self.plan.metrics
                && written.is_none_or(|at| at.elapsed() >= METRICS_EVERY)
            {
                match write_metrics(path, &self.server) {
                    Err(e) if written.is_none() => return Err(e),
                    Err(e) => observer.warn(&format!("{e:#}")),
                    Ok(()) => {}
                }
                written = Some(Instant::now());
            }
            std::thread::sleep(LOOK);
            if live::signal::hung_up() {
                self.server.reload();
            }
            for note in self.server.notes() {
                observer.say(&note);
            }
        }
        let stats = self.server.stats();
        self.server.stop();
        Ok(Answer { stats })
    }

    /// Tells the operator where it listens, for whom, and with which key.
    fn announce(&self, observer: &dyn Observer) {
        if privileges::is_root() && self.plan.user == "root" {
            observer.warn(
                "serves as root, as --user root says. A fault in it would be a fault with all rights",
            );
        }
        let whom = match self.plan.keys {
            None => "open to anybody, within budgets",
            Some(_) => "for users with a key",
        };
        for address in self.server.local_addrs() {
            observer.say(&format!("listening on {address}, UDP and TCP; {whom}"));
        }
        for guest in self.server.guests() {
            let (name, below) = (guest.protocol.name(), guest.protocol.transport());
            observer.say(&format!(
                "listening on {}, {below}, for {name}",
                guest.listen
            ));
        }
        if let Some(url) = self.server.web() {
            observer.say(&format!("browsers run the test at {url}"));
            if url.starts_with("https")
                && self
                    .plan
                    .web
                    .as_ref()
                    .is_some_and(|w| w.certificate.is_none() && w.acme.is_none())
            {
                observer.say("browsers warn of this site's certificate, which it made itself: --acme, or --web-cert and --web-key, give another");
            }
        }
        if let Some(user) = &self.became {
            observer.say(&format!("runs as user {}", user.name()));
        }
        if let Some(pin) = self.server.pin() {
            observer.say(&format!("public key, for --pin of clients: {pin}"));
        }
        if let Some(e) = &self.unkept {
            observer.say(&format!(
                "{e}. This public key is for this run only; --state DIRECTORY keeps one"
            ));
        }
    }
}

/// Writes the counters to a file that anybody may read.
fn write_metrics(path: &Path, server: &Server) -> anyhow::Result<()> {
    write_file(path, &metrics::render(&server.stats()))?;
    let readable = Permissions::from_mode(0o644);
    std::fs::set_permissions(path, readable)
        .with_context(|| format!("cannot let others read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    struct Once(Vec<String>);

    impl Progress for Once {
        fn tell(&mut self, event: News<'_>) {
            if let News::Said(text) = event {
                self.0.push(text.into());
            }
        }
        fn interrupted(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn a_plan_is_the_same_after_a_turn_through_json() {
        let mut stream = Streams::new(5).stream("plans");
        for _ in 0..50 {
            let mut coin = || uniform(&mut stream) < 0.5;
            let plan = Plan {
                listen: coin()
                    .then(|| ([127, 0, 0, 1], 99).into())
                    .into_iter()
                    .collect(),
                keys: coin().then(|| "users.txt".into()),
                tls: match (coin(), coin()) {
                    (true, required) => Tls::Kept {
                        directory: "state".into(),
                        required,
                    },
                    (false, true) => Tls::Own {
                        certificate: "c.pem".into(),
                        key: "k.pem".into(),
                    },
                    (false, false) => Tls::Fresh,
                },
                tls_only: coin(),
                allow: match coin() {
                    true => vec!["192.0.2.0/24".parse().unwrap(), "::1".parse().unwrap()],
                    false => Vec::new(),
                },
                allow_listen: coin().then(|| "80,40000-40999".parse().unwrap()),
                allow_capture: coin(),
                max_rate: coin().then(|| BitsPerSec::from_mbps(7)),
                guests: match coin() {
                    true => vec![Guest {
                        protocol: live::serve::Protocol::Stamp,
                        listen: ([127, 0, 0, 1], 862).into(),
                    }],
                    false => Vec::new(),
                },
                web: coin().then(|| Web {
                    listen: ([127, 0, 0, 1], 8443).into(),
                    certificate: Some(("c.pem".into(), "k.pem".into())),
                    acme: coin().then(|| Acme {
                        authority: "letsencrypt-staging".parse().unwrap(),
                        names: vec!["a.example".parse().unwrap(), "::1".parse().unwrap()],
                        agreed: coin(),
                        contact: Some("mailto:anna@example.org".into()),
                        ca: coin().then(|| "ca.pem".into()),
                        state: "state/acme".into(),
                    }),
                    keep: Some("kept".into()),
                    keep_size: KEEP_SIZE,
                    guests: WebGuests {
                        rpm: coin(),
                        ndt7: coin(),
                    },
                }),
                metrics: coin().then(|| "tailback.prom".into()),
                ..Plan::default()
            };
            let json = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan, "{json}");
        }
        let unknown = "{\"tls\": \"fresh\", \"port\": 7}";
        assert!(serde_json::from_str::<Plan>(unknown).is_err());
    }

    #[test]
    fn a_server_that_is_interrupted_at_once_has_said_where_it_listened() {
        let plan = Plan {
            listen: vec![([127, 0, 0, 1], 0).into()],
            user: "root".into(),
            ..Plan::default()
        };
        let mut once = Once(Vec::new());
        let answer = run(&plan, None, &mut once).unwrap();
        assert_eq!(answer.stats.connections, 0);
        assert!(
            once.0[0].starts_with("listening on 127.0.0.1:"),
            "{:?}",
            once.0
        );
        assert!(
            once.0.iter().any(|t| t.starts_with("public key")),
            "{:?}",
            once.0
        );
        assert!(
            answer.text().contains("tailback_connections 0"),
            "{}",
            answer.text()
        );
    }
}
