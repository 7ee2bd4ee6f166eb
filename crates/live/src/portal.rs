//! Log-in pages (captive portals): a network that answers in place of a host until its user has logged in.
//!
//! **Method.** A plain HTTP request asks a host for a page whose name is drawn at random, so that no page exists there. A
//! web server says 404, or redirects and keeps the name. A log-in page answers 511 (RFC 6585, section 6), redirects to
//! another page, or sends a page of its own (RFC 8952). HTTPS would hide all of it, so it is not used.
//!
//! **Limits.** A web server that sends all unknown names to its front page looks like a log-in page, and so does a domain
//! that moved: such an answer is a suspicion. Networks that drop packets without an answer are not told from a host that
//! is down.

use crate::outlet::Outlet;
use crate::printed::{Ended, Printed};
use base::text::clean;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::http::{Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Longest wait for the answer of a host.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest part of a page that is read.
const MOST_PAGE: usize = 64 << 10;
/// Longest address of a page that is repeated.
const MOST_ADDRESS: usize = 500;
/// Longest run of the user's command.
const COMMAND: Duration = Duration::from_secs(60);
/// Most lines of the user's command that are shown.
const SHOWN: usize = 20;
/// Variable that tells the user's command the address of the page.
pub const VARIABLE: &str = "TAILBACK_LOGIN_URL";

/// Log-in page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogIn {
    /// True if no web server answers like this.
    pub is_certain: bool,
    /// Answer that shows it, such as `HTTP 302 to http://portal.example/`.
    pub evidence: String,
    /// Address of the page, if it is known.
    pub address: Option<String>,
}

/// Answer of a host to a request for a page that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    LogIn(LogIn),
    /// A web server answered as one should.
    WebServer,
    /// Nothing answered by HTTP.
    Nothing,
}

/// Head and begin of an answer.
struct Heard<'h> {
    status: u16,
    location: Option<&'h str>,
    page: &'h [u8],
}

/// Asks the host `host` at `address`.
///
/// # Errors
/// The operating system gives no runtime.
pub fn ask(host: &str, address: SocketAddr, outlet: &Outlet) -> std::io::Result<Found> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut drawn = [0; 8];
    crate::sys::random::fill(&mut drawn)?;
    let name = format!("tailback-{:016x}", u64::from_ne_bytes(drawn));
    let heard = runtime.block_on(async {
        timeout(PATIENCE, fetch(host, (address, outlet), &name))
            .await
            .ok()
            .flatten()
    });
    Ok(match &heard {
        None => Found::Nothing,
        Some((status, location, page)) => {
            let heard = Heard {
                status: *status,
                location: location.as_deref(),
                page,
            };
            judge(host, address.port(), &name, &heard)
        }
    })
}

/// Status, redirection and begin of the page; `None` without an answer by HTTP.
async fn fetch(
    host: &str,
    (address, outlet): (SocketAddr, &Outlet),
    name: &str,
) -> Option<(u16, Option<String>, Vec<u8>)> {
    let stream = outlet.connect(address).await.ok()?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MOST_PAGE);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
    let driven = tokio::spawn(async move { drop(connection.await) });
    let request = Request::builder()
        .uri(format!("/{name}"))
        .header(header::HOST, authority(host, address.port()))
        .header(
            header::USER_AGENT,
            concat!("tailback/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Empty::<&[u8]>::new())
        .ok()?;
    let answer: Response<_> = sender.send_request(request).await.ok()?;
    let status = answer.status().as_u16();
    let location = answer.headers().get(header::LOCATION);
    let location = location.and_then(|l| l.to_str().ok()).map(str::to_owned);
    let page = Limited::new(answer.into_body(), MOST_PAGE).collect().await;
    let page = page.map_or_else(|_| Vec::new(), |p| p.to_bytes().to_vec());
    driven.abort();
    Some((status, location, page))
}

fn authority(host: &str, port: u16) -> String {
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    match port {
        80 => host,
        port => format!("{host}:{port}"),
    }
}

/// Decides what has answered for `host`, which was asked for the page `name`.
fn judge(host: &str, port: u16, name: &str, heard: &Heard<'_>) -> Found {
    let found = |is_certain, evidence, address| {
        Found::LogIn(LogIn {
            is_certain,
            evidence,
            address,
        })
    };
    let status = heard.status;
    match StatusCode::from_u16(status) {
        // RFC 6585 section 6: the network asks for authentication.
        Ok(StatusCode::NETWORK_AUTHENTICATION_REQUIRED) => {
            let linked = linked(heard.page);
            found(true, format!("HTTP {status}"), linked)
        }
        Ok(code) if code.is_redirection() => {
            let Some(to) = heard.location.and_then(|l| resolved(host, port, l)) else {
                return Found::WebServer;
            };
            if to.path().contains(name) {
                return Found::WebServer;
            }
            let address: String = to.to_string().chars().take(MOST_ADDRESS).collect();
            let elsewhere = to.host().is_some_and(|h| !is_same_site(h, host));
            // A domain that was moved for good says so; a log-in page must not, or browsers would keep it.
            let for_good = [
                StatusCode::MOVED_PERMANENTLY,
                StatusCode::PERMANENT_REDIRECT,
            ];
            found(
                elsewhere && !for_good.contains(&code),
                format!("HTTP {status} to {address}"),
                Some(address),
            )
        }
        Ok(StatusCode::NO_CONTENT) => Found::WebServer,
        Ok(code) if code.is_success() => {
            let evidence = format!("HTTP {status} for a page that does not exist");
            found(false, evidence, linked(heard.page))
        }
        _ => Found::WebServer,
    }
}

/// Address of a redirection, which may be relative; `None` if it is none.
fn resolved(host: &str, port: u16, location: &str) -> Option<Uri> {
    if location.len() > 4 * MOST_ADDRESS || clean(location) != location {
        return None;
    }
    let uri: Uri = location.parse().ok()?;
    if uri.host().is_some() {
        return Some(uri);
    }
    let slash = if location.starts_with('/') { "" } else { "/" };
    let whole = format!("http://{}{slash}{location}", authority(host, port));
    whole.parse().ok()
}

/// True if two names are of one site: equal, but for a `www.` in front.
fn is_same_site(a: &str, b: &str) -> bool {
    let plain = |h: &str| {
        let h = h
            .trim_end_matches('.')
            .trim_matches(['[', ']'])
            .to_ascii_lowercase();
        h.strip_prefix("www.").map_or(h.clone(), str::to_owned)
    };
    plain(a) == plain(b)
}

/// First address that a page links to: 511 has the log-in page in its text (RFC 6585, section 6).
fn linked(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page);
    let from = text.find("http://").or_else(|| text.find("https://"))?;
    let end = |c: char| c.is_whitespace() || c.is_control() || "\"'<>".contains(c);
    let address: String = text[from..].chars().take_while(|c| !end(*c)).collect();
    let is_one = address.len() <= MOST_ADDRESS && address.parse::<Uri>().is_ok();
    is_one.then_some(address)
}

/// Failure of the user's command.
#[derive(Debug, thiserror::Error)]
pub enum LogInError {
    #[error("the command of --login-cmd cannot be started: {0}")]
    Start(std::io::Error),
    #[error("the command of --login-cmd failed: {0}")]
    Failed(std::process::ExitStatus),
    #[error("the command of --login-cmd did not end within {} s", COMMAND.as_secs())]
    Endless,
}

/// Runs the user's command that passes a log-in page, and shows its lines.
///
/// # Errors
/// A command that cannot be started, fails, or does not end.
pub fn pass(command: &str, page: &LogIn, show: &mut dyn FnMut(&str)) -> Result<(), LogInError> {
    let address = page.address.as_deref().unwrap_or_default();
    let mut printed =
        Printed::start_with(command, &[(VARIABLE, address)]).map_err(LogInError::Start)?;
    let until = Instant::now() + COMMAND;
    let mut shown = 0;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LogInError::Endless);
        }
        match printed.wait(left.min(Duration::from_millis(100))) {
            Ok(Some(line)) if shown < SHOWN => {
                shown += 1;
                show(&clean(&line.text));
            }
            Ok(_) => {}
            Err(Ended) => match printed.status().map_err(LogInError::Start)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(LogInError::Failed(status)),
                None => std::thread::sleep(Duration::from_millis(20)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    const NAME: &str = "tailback-0123456789abcdef";

    fn heard(status: u16, location: Option<&str>, page: &str) -> Found {
        let heard = Heard {
            status,
            location,
            page: page.as_bytes(),
        };
        judge("far.example", 80, NAME, &heard)
    }

    /// Certainty of a found log-in page, and its address.
    fn log_in(found: Found) -> Option<(bool, Option<String>)> {
        match found {
            Found::LogIn(l) => Some((l.is_certain, l.address)),
            Found::WebServer | Found::Nothing => None,
        }
    }

    #[test]
    fn answers_of_log_in_pages_are_told_from_those_of_web_servers() {
        let certain = |address: &str| Some((true, Some(address.to_owned())));
        let doubtful = |address: &str| Some((false, Some(address.to_owned())));
        let to = "http://portal.example/login?url=http://far.example/tailback-0123456789abcdef";
        assert_eq!(log_in(heard(302, Some(to), "")), certain(to));
        let page = "<html><a href=\"https://login.example/go?a=1\">log in</a>";
        let linked = "https://login.example/go?a=1";
        assert_eq!(log_in(heard(511, None, page)), certain(linked));
        assert_eq!(log_in(heard(511, None, "")), Some((true, None)));
        assert_eq!(log_in(heard(200, None, page)), doubtful(linked));
        let moved = "https://brand.example/";
        assert_eq!(log_in(heard(301, Some(moved), "")), doubtful(moved));
        assert_eq!(log_in(heard(303, Some(moved), "")), certain(moved));
        let here = doubtful("http://far.example/login");
        assert_eq!(log_in(heard(307, Some("/login"), "")), here);
        for (status, location) in [
            (404, None),
            (204, None),
            (403, None),
            (500, None),
            (301, Some("https://far.example/tailback-0123456789abcdef")),
            (
                301,
                Some("https://www.other.example/tailback-0123456789abcdef"),
            ),
            (302, None),
            (302, Some("\u{1b}[31mhttp://portal.example/")),
        ] {
            let found = heard(status, location, "");
            assert_eq!(found, Found::WebServer, "{status} {location:?}");
        }
        let www = log_in(heard(302, Some("https://WWW.far.example/"), "")).unwrap();
        assert!(
            !www.0,
            "the same site may send unknown names to its front page"
        );
    }

    /// Hostile answers: any bytes in the head and the page, cut and joined at random. No address has a control character.
    #[test]
    fn no_answer_panics_or_brings_control_characters() {
        let pieces = [
            "http://",
            "https://",
            "//",
            "portal.example",
            "[::1",
            "]",
            ":99999",
            "/",
            "?",
            "#",
            "%",
            "\u{7f}",
            "\u{1b}[2J",
            "é",
            " ",
            NAME,
            "\0",
            "@",
            "\"",
            "<",
        ];
        for seed in 0..3000 {
            let mut rng = Streams::new(seed).stream("answers");
            let mut draw = |n: usize| (uniform(&mut rng) * n as f64) as usize;
            let mut text =
                |n: usize| -> String { (0..draw(n)).map(|_| pieces[draw(pieces.len())]).collect() };
            let (location, page) = (text(8), text(40));
            let status = 100 + draw(900) as u16;
            if let Found::LogIn(l) = heard(status, Some(&location), &page) {
                let all = l.evidence + l.address.as_deref().unwrap_or_default();
                assert!(!all.chars().any(char::is_control), "seed {seed}: {all:?}");
            }
        }
    }

    #[test]
    fn a_command_learns_the_address_and_a_failure_is_told() {
        let page = LogIn {
            is_certain: true,
            evidence: "HTTP 511".into(),
            address: Some("http://portal.example/$(touch x)".into()),
        };
        let mut said = Vec::new();
        let show = &mut |line: &str| said.push(line.to_owned());
        pass("echo \"$TAILBACK_LOGIN_URL\"", &page, show).expect("it succeeds");
        assert_eq!(said, ["http://portal.example/$(touch x)"]);
        let failed = pass("exit 3", &page, &mut |_| {});
        assert!(matches!(failed, Err(LogInError::Failed(_))), "{failed:?}");
    }
}
