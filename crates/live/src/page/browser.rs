//! A browser without a window, told what to do over a pair of pipes: Chromium's own DevTools protocol, one JSON text after
//! the other with a zero byte between them. `docs/decisions/0009-browser-over-a-pipe.md` says why no driver stands in between.

use base::noted::page::HttpOver;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Names of the program in Debian and elsewhere.
const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];
/// A command that no network is needed for is answered by then, even on a busy host.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for the browser to close when it is asked to.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

/// Hosts that it would contact by itself soon after its start, for updates: such traffic would disturb the measurement.
const OWN_HOSTS: &str = "MAP update.googleapis.com ~NOTFOUND, MAP clients2.google.com ~NOTFOUND";

#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error(
        "no browser here: none of {} is in PATH. Install one (Debian: apt install chromium), or name one with page:browser=PATH", NAMES.join(", ")
    )]
    Missing,
    #[error("cannot start the browser {}: {source}", .path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("the browser {} ended by itself{said}", .path.display())]
    Died { path: PathBuf, said: String },
    #[error("the browser {} said nothing to {method} within {waited:?}", .path.display())]
    Silent {
        path: PathBuf,
        method: String,
        waited: Duration,
    },
    #[error(
        "the browser {} refused {method}: {text}. Tailback needs Chromium or Chrome of 2024 or later", .path.display()
    )]
    Refused {
        path: PathBuf,
        method: String,
        text: String,
    },
}

/// The browser to use: the one given, or the first that is in PATH.
///
/// # Errors
/// There is none.
pub fn find(given: Option<&Path>) -> Result<PathBuf, BrowserError> {
    if let Some(path) = given {
        return Ok(path.into());
    }
    let dirs: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|all| std::env::split_paths(&all).collect())
        .unwrap_or_default();
    NAMES
        .iter()
        .flat_map(|name| dirs.iter().map(move |d| d.join(name)))
        .find(|p| p.is_file())
        .ok_or(BrowserError::Missing)
}

/// Options of its start.
#[derive(Clone, Debug)]
pub struct Options {
    pub path: PathBuf,
    /// Keys of certificates to accept although nobody vouches for them: SHA-256 of the public key, base64.
    pub trust: Vec<String>,
}

/// A running browser with a profile of its own, which is gone when this is dropped.
pub struct Browser {
    path: PathBuf,
    child: Child,
    to: File,
    from: File,
    read: Vec<u8>,
    events: VecDeque<Value>,
    next: u64,
    dir: PathBuf,
    pub product: String,
}

/// Switches of every start: no window, and no traffic of the browser's own.
const SWITCHES: [&str; 19] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--no-pings",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--metrics-recording-only",
    "--mute-audio",
    "--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication,NetworkTimeServiceQuerying",
];

impl Browser {
    /// Starts one in the calling thread's network namespace. Over QUIC, `origins` are the hosts and ports that it asks at once,
    /// without TCP beside it.
    ///
    /// # Errors
    /// It cannot be started, or does not speak the protocol.
    pub fn start(
        options: &Options,
        over: HttpOver,
        origins: &[String],
    ) -> Result<Browser, BrowserError> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let path = options.path.clone();
        let failed = |source| BrowserError::Start {
            path: path.clone(),
            source,
        };
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("tailback-browser-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).map_err(failed)?;
        let (its_in, to) = io::pipe().map_err(failed)?;
        let (from, its_out) = io::pipe().map_err(failed)?;
        let said = File::create(dir.join("said")).map_err(failed)?;
        let mut command = Command::new(&options.path);
        command
            .args(SWITCHES)
            .arg(format!("--host-resolver-rules={OWN_HOSTS}"))
            .arg(format!("--user-data-dir={}", dir.join("profile").display()))
            .arg(format!("--log-net-log={}", log_in(&dir).display()));
        if !options.trust.is_empty() {
            let keys = options.trust.join(",");
            command.arg(format!("--ignore-certificate-errors-spki-list={keys}"));
        }
        match over {
            HttpOver::Any => {}
            HttpOver::Tcp => {
                command.arg("--disable-quic");
            }
            HttpOver::Quic => {
                let origins = origins.join(",");
                command.arg("--enable-quic");
                command.arg(format!("--origin-to-force-quic-on={origins}"));
            }
        }
        if nix::unistd::geteuid().is_root() {
            // It does not start otherwise.
            command.arg("--no-sandbox");
        }
        command
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .process_group(0);
        let (reads, writes) = (its_in.as_raw_fd(), its_out.as_raw_fd());
        crate::sys::exec::with_pipes(&mut command, reads, writes);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(e) => {
                // What it would have written into is empty.
                let _ = fs::remove_dir_all(&dir);
                return Err(failed(e));
            }
        };
        let mut browser = Browser {
            path: options.path.clone(),
            child,
            to: File::from(std::os::fd::OwnedFd::from(to)),
            from: File::from(std::os::fd::OwnedFd::from(from)),
            read: Vec::new(),
            events: VecDeque::new(),
            next: 0,
            dir,
            product: String::new(),
        };
        drop((its_in, its_out));
        let version = browser.call(None, "Browser.getVersion", &json!({}))?;
        browser.product = version["product"].as_str().unwrap_or("").to_owned();
        Ok(browser)
    }

    /// Asks for something that needs no network, and waits for what it gives.
    ///
    /// # Errors
    /// The browser ended, says nothing, or refuses.
    pub fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value, BrowserError> {
        let number = self.send(session, method, params)?;
        let began = Instant::now();
        loop {
            let left = ANSWERS_WITHIN.saturating_sub(began.elapsed());
            let Some(message) = self.receive(left)? else {
                if left.is_zero() {
                    return Err(BrowserError::Silent {
                        path: self.path.clone(),
                        method: method.into(),
                        waited: ANSWERS_WITHIN,
                    });
                }
                continue;
            };
            if message["id"] != number {
                self.events.push_back(message);
                continue;
            }
            if let Some(text) = message["error"]["message"].as_str() {
                return Err(BrowserError::Refused {
                    path: self.path.clone(),
                    method: method.into(),
                    text: text.into(),
                });
            }
            return Ok(message["result"].clone());
        }
    }

    /// Asks for something whose answer comes as a message; gives its number.
    ///
    /// # Errors
    /// The browser ended.
    pub fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<u64, BrowserError> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        match self.to.write_all(&text) {
            Ok(()) => Ok(self.next),
            Err(_) => Err(self.died()),
        }
    }

    /// The next message that nobody has had, waiting for it at most so long.
    ///
    /// # Errors
    /// The browser ended.
    pub fn message(&mut self, most: Duration) -> Result<Option<Value>, BrowserError> {
        match self.events.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.receive(most),
        }
    }

    fn receive(&mut self, most: Duration) -> Result<Option<Value>, BrowserError> {
        let until = Instant::now() + most;
        loop {
            if let Some(end) = self.read.iter().position(|b| *b == 0) {
                let message = serde_json::from_slice(&self.read[..end]);
                self.read.drain(..=end);
                // What is no JSON is no message of the protocol.
                match message {
                    Ok(message) => return Ok(Some(message)),
                    Err(_) => continue,
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
            let most_ms = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
            match poll(&mut polled, PollTimeout::from(most_ms)) {
                Ok(0) if left.as_millis() == 0 => return Ok(None),
                Ok(0) | Err(Errno::EINTR) => {
                    if left.is_zero() {
                        return Ok(None);
                    }
                    continue;
                }
                Ok(_) => {}
                Err(_) => return Err(self.died()),
            }
            let mut chunk = [0; 64 << 10];
            match self.from.read(&mut chunk) {
                Ok(n) if n > 0 => self.read.extend(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(self.died()),
            }
        }
    }

    fn died(&mut self) -> BrowserError {
        // The messages of D-Bus, which a host without a desktop lacks, say nothing of why.
        let said = fs::read_to_string(self.dir.join("said")).unwrap_or_default();
        let lines = said.lines().filter(|l| !l.contains("dbus/"));
        let last: Vec<&str> = lines.collect();
        let tail = last[last.len().saturating_sub(3)..].join("; ");
        BrowserError::Died {
            path: self.path.clone(),
            said: if tail.is_empty() {
                String::new()
            } else {
                format!(": {tail}")
            },
        }
    }

    /// Ends it as a user would, so that its log of the network is whole; gives that log.
    pub fn close(mut self) -> Option<File> {
        if self.send(None, "Browser.close", &json!({})).is_ok() {
            let began = Instant::now();
            while began.elapsed() < LEAVES_WITHIN {
                match self.child.try_wait() {
                    Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                    _ => break,
                }
            }
        }
        File::open(log_in(&self.dir)).ok()
    }
}

fn log_in(dir: &Path) -> PathBuf {
    dir.join("net.json")
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its renderers are of its process group.
        let group = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
