//! Log-in pages (captive portals): found before or after a measurement, and passed by the user's command.
//!
//! A measurement over our own protocol is its own proof: no log-in page speaks it. A failed one is followed by one plain
//! HTTP request to the server's host. The host of `check`, and pages that travel without TLS, are asked before.

use crate::progress::Observer;
use crate::{is_usage, usage};
use anyhow::Context;
use live::outlet::Outlet;
use live::portal::{self, Found, LogIn as Page};
use std::time::Duration;

/// Port of plain HTTP.
const HTTP: u16 = 80;
/// Attempts after the user's command, and the pause between them: a gateway may take a moment to let a user pass.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(500);

/// Treatment of log-in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogIn {
    /// Host that is asked before the measurement, with a port if it is not 80.
    pub check: Option<String>,
    /// Command that passes a log-in page. A file of a plan cannot set it: it would run a stranger's command.
    pub command: Option<String>,
    /// Interface that the requests leave by.
    pub outlet: Outlet,
}

/// Sentence on a log-in page: `a log-in page answers in place of far.example (HTTP 511)`.
fn says(host: &str, page: &Page) -> String {
    let answers = if page.is_certain {
        "answers"
    } else {
        "may answer"
    };
    let evidence = &page.evidence;
    format!("a log-in page {answers} in place of {host} ({evidence})")
}

/// Sentence on a measurement that a log-in page prevented, and what to do.
fn prevented(host: &str, page: &Page) -> String {
    let browser = match &page.address {
        Some(address) => format!("log in with a browser at {address}"),
        None => "log in with a browser".into(),
    };
    format!(
        "{}. This is not a measurement: {browser}, or name a command that does with --login-cmd, and run it again",
        says(host, page)
    )
}

impl LogIn {
    /// The same through an outlet.
    pub(crate) fn through(&self, outlet: &Outlet) -> LogIn {
        LogIn {
            outlet: outlet.clone(),
            ..self.clone()
        }
    }

    /// Asks the hosts that are checked before a measurement.
    ///
    /// # Errors
    /// A log-in page that is not passed, and a host that cannot be read.
    pub(crate) fn before<'a>(
        &'a self,
        pages: impl IntoIterator<Item = &'a String>,
        observer: &dyn Observer,
    ) -> anyhow::Result<()> {
        for host in self.check.iter().chain(pages) {
            let Found::LogIn(page) = self
                .ask(host)
                .with_context(|| format!("--login-check {host}"))?
            else {
                continue;
            };
            if self.command.is_some() {
                self.pass(host, &page, observer)?;
            } else if page.is_certain {
                anyhow::bail!(prevented(host, &page));
            } else {
                let doubt = says(host, &page);
                observer.warn(&format!("{doubt}: if so, the figures are of that page"));
            }
        }
        Ok(())
    }

    /// Looks for a log-in page after a measurement over `server` failed. Measures again if the user's command passed it.
    ///
    /// # Errors
    /// The failure itself, with what was found; a log-in page that is not passed.
    pub(crate) fn after<A>(
        &self,
        server: &str,
        failure: anyhow::Error,
        observer: &dyn Observer,
        again: impl FnOnce() -> anyhow::Result<A>,
    ) -> anyhow::Result<A> {
        if is_usage(&failure) || observer.interrupted() {
            return Err(failure);
        }
        let host = without_port(server);
        let Ok(Found::LogIn(page)) = self.ask(&host) else {
            return Err(failure);
        };
        if self.command.is_none() {
            return Err(failure.context(format!("{}. The failure", prevented(&host, &page))));
        }
        self.pass(&host, &page, observer)?;
        again()
    }

    /// Asks a host for a page that does not exist.
    fn ask(&self, host: &str) -> anyhow::Result<Found> {
        let address = match live::resolve::server(host, HTTP, false, false) {
            Ok(address) => address,
            Err(e @ live::resolve::ResolveError::BadPort { .. }) => {
                return Err(usage(e.to_string()));
            }
            // A name that is not found is no log-in page; the measurement says so itself.
            Err(_) => return Ok(Found::Nothing),
        };
        let name = live::resolve::name(host);
        portal::ask(&name, address, &self.outlet).context("cannot ask by HTTP")
    }

    /// Runs the user's command until the page no longer answers.
    fn pass(&self, host: &str, page: &Page, observer: &dyn Observer) -> anyhow::Result<()> {
        let Some(command) = &self.command else {
            anyhow::bail!(prevented(host, page));
        };
        observer.say(&format!("{}: running --login-cmd", says(host, page)));
        portal::pass(command, page, &mut |line| observer.say(line))?;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            match self.ask(host)? {
                Found::LogIn(still) if still.is_certain || page.is_certain => {}
                // A suspicion that stays is the web server of the host.
                _ => return Ok(()),
            }
        }
        anyhow::bail!(
            "the command of --login-cmd has ended, and the log-in page still answers in place of {host}"
        )
    }
}

/// Host of a server as the user names it, without the port of the measurement.
fn without_port(server: &str) -> String {
    let name = live::resolve::name(server);
    match name.contains(':') {
        true => format!("[{name}]"),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Shared;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Web server that gives these answers in turn, the last one again and again.
    fn web(answers: &[&str]) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut head = [0; 2000];
                let _ = stream.read(&mut head);
                let n = count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(answers[n.min(answers.len() - 1)].as_bytes());
            }
        });
        (address, asked)
    }

    const PORTAL: &str =
        "HTTP/1.1 302 Found\r\nLocation: http://portal.example/login\r\nContent-Length: 0\r\n\r\n";
    const NETWORK: &str =
        "HTTP/1.1 511 Network Authentication Required\r\nContent-Length: 0\r\n\r\n";
    const REWRITTEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nplease log in";
    const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    const NOISE: &str = "\u{1}\u{2} no HTTP at all \r\n\r\n";

    fn before(answers: &[&str], command: Option<&str>) -> Result<(), String> {
        let (host, _) = web(answers);
        let log_in = LogIn {
            check: Some(host),
            command: command.map(str::to_owned),
            ..LogIn::default()
        };
        let passed = log_in.before(&[], &Shared::new(&mut ()));
        passed.map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn certain_pages_stop_a_measurement_and_doubtful_ones_do_not() {
        for answer in [PORTAL, NETWORK] {
            let why = before(&[answer], None).unwrap_err();
            assert!(why.contains("a log-in page answers in place of"), "{why}");
        }
        for answer in [REWRITTEN, MISSING, NOISE] {
            assert_eq!(before(&[answer], None), Ok(()), "{answer}");
        }
    }

    #[test]
    fn a_command_passes_the_page_and_one_that_does_not_is_told() {
        assert_eq!(before(&[PORTAL, PORTAL, MISSING], Some("true")), Ok(()));
        assert_eq!(before(&[REWRITTEN], Some("true")), Ok(()));
        let why = before(&[PORTAL], Some("true")).unwrap_err();
        assert!(why.contains("still answers"), "{why}");
        let why = before(&[PORTAL], Some("exit 1")).unwrap_err();
        assert!(why.contains("--login-cmd failed"), "{why}");
    }

    #[test]
    fn a_request_that_must_be_changed_is_not_followed_by_another() {
        let (host, asked) = web(&[PORTAL]);
        let log_in = LogIn::default();
        let mut quiet = ();
        let shared = Shared::new(&mut quiet);
        let failed = log_in.after(&host, usage("no such phase"), &shared, || Ok(()));
        assert!(is_usage(&failed.unwrap_err()));
        assert_eq!(asked.load(Ordering::SeqCst), 0);
    }
}
