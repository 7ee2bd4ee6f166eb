//! The site of pages, `bench/site/site.mjs`, at the far end of a line.

use live::emulate::{Emulation, FAR_V4};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// HTTP/1.1 is here, HTTP/2 over TLS at the next port, HTTP/1.1 over TLS at the one after.
pub const PORT: u16 = 8000;

/// Returns the programs that this host lacks, of a browser and Node.
pub fn missing() -> Vec<&'static str> {
    let there = |name: &str| {
        let run = Command::new(name).arg("--version").output();
        run.is_ok_and(|out| out.status.success())
    };
    let mut needed = vec!["chromium", "node"];
    needed.retain(|n| !there(n));
    needed
}

/// Python that has aioquic: the one of `make deps`, or the system's.
pub fn python() -> Option<String> {
    let made = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../target/tmp/aioquic/bin/python"
    );
    [made, "python3"].into_iter().map(str::to_owned).find(|p| {
        let run = Command::new(p).args(["-c", "import aioquic"]).output();
        run.is_ok_and(|out| out.status.success())
    })
}

/// The pages over HTTP/3, `bench/site/h3.py`, at the UDP port whose number is that of HTTP/2.
pub struct Http3 {
    child: Child,
}

impl Drop for Http3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Http3 {
    pub fn start(line: &Emulation, python: &str) -> Http3 {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/site/h3.py");
        let mut command = Command::new(python);
        command
            .args([script, "0.0.0.0", &(PORT + 1).to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = line.far().command(&mut command).spawn().expect("it runs");
        let mut first = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut first).expect("it says");
        assert!(first.contains("h3"), "{first}");
        Http3 { child }
    }

    /// Connections that it took and requests that it answered, once it has stopped.
    pub fn stop(mut self) -> (u64, u64) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let mut text = String::new();
        let out = self.child.stderr.take().expect("it is piped");
        BufReader::new(out)
            .read_to_string(&mut text)
            .expect("it says");
        let says: Value = serde_json::from_str(&text).expect("it is JSON");
        let count = |key: &str| says[key].as_u64().expect("a count");
        (count("connections"), count("answers"))
    }
}

pub struct Site {
    child: Child,
    says: Value,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Site {
    pub fn start(line: &Emulation) -> Site {
        Site::with(line, &[])
    }

    /// Site that announces HTTP/3 at the port of HTTP/2, whether or not it is there.
    pub fn announcing(line: &Emulation) -> Site {
        Site::with(line, &["h3"])
    }

    fn with(line: &Emulation, more: &[&str]) -> Site {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/site/site.mjs");
        let mut command = Command::new("node");
        command
            .args([script, "0.0.0.0", &PORT.to_string()])
            .args(more)
            .stdout(Stdio::piped());
        let mut child = line.far().command(&mut command).spawn().expect("node runs");
        let mut first = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut first).expect("it says");
        let says = serde_json::from_str(&first).expect("it is JSON");
        Site { child, says }
    }

    /// The key of its certificate, for `page:trust=`.
    pub fn trust(&self) -> &str {
        self.says["trust"].as_str().expect("a key")
    }

    /// Connections that it took on each port. To ask is one of `PORT`, which is in the count.
    pub fn counts(&self, line: &Emulation) -> Value {
        let text = line.near().run(move || {
            let mut stream = TcpStream::connect((FAR_V4, PORT)).expect("connects");
            let ask = "GET /count HTTP/1.1\r\nhost: far\r\nconnection: close\r\n\r\n";
            stream.write_all(ask.as_bytes()).expect("asks");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("answers");
            text
        });
        let text = text.expect("enters");
        let (from, to) = (
            text.find('{').expect("JSON"),
            text.rfind('}').expect("JSON"),
        );
        serde_json::from_str(&text[from..=to]).expect("it is JSON")
    }
}
