//! A real ClickHouse server, and a way to it that breaks.

use crate::{Service, TempDir, skip};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time for the server to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Server with a directory of its own; a new start goes on with what is there.
pub struct ClickHouse {
    directory: TempDir,
    port: u16,
    process: Option<Service>,
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    free.expect("a free port").port()
}

impl ClickHouse {
    /// Starts one; `None`, and says so, where it is not installed.
    ///
    /// # Panics
    /// If it does not start although it is installed.
    pub fn start() -> Option<ClickHouse> {
        if !["/usr/sbin", "/usr/bin"]
            .iter()
            .any(|d| std::path::Path::new(d).join("clickhouse-server").exists())
        {
            skip("no clickhouse-server: `make deps` installs it");
            return None;
        }
        let directory = TempDir::new("clickhouse");
        let (http, tcp) = (free_port(), free_port());
        let at = |name: &str| directory.at(name);
        let users = "<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default><password></password>\
            <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users></yandex>";
        let users = directory.file("users.xml", users);
        let config = format!(
            "<yandex><logger><level>error</level><log>{}</log><errorlog>{}</errorlog></logger><http_port>{http}</http_port>\
             <tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host><path>{}/</path><tmp_path>{}/</tmp_path>\
             <users_config>{users}</users_config><default_profile>default</default_profile>\
             <default_database>default</default_database><mark_cache_size>5368709120</mark_cache_size></yandex>",
            at("log"),
            at("err"),
            at("data"),
            at("tmp")
        );
        directory.file("config.xml", config);
        let mut server = ClickHouse {
            directory,
            port: http,
            process: None,
        };
        server.again();
        Some(server)
    }

    /// Kills the server if it runs, and starts it again.
    ///
    /// # Panics
    /// If it does not start.
    pub fn again(&mut self) {
        self.process = None;
        let mut command = Command::new("clickhouse-server");
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .arg(format!("--config-file={}", self.directory.at("config.xml")))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(Service(command.spawn().expect("clickhouse-server runs")));
        let began = Instant::now();
        while self.ask("select 1").as_deref() != Some("1\n") {
            assert!(
                began.elapsed() < PATIENCE,
                "clickhouse-server does not answer"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Port for HTTP.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answer to a query; `None` if the server refuses it or does not run.
    pub fn ask(&self, sql: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{sql}", sql.len()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let whole = match head.to_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(body)?,
            false => body.to_owned(),
        };
        head.starts_with("HTTP/1.1 200").then_some(whole)
    }
}

fn unchunked(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole += rest.get(..size)?;
        body = rest.get(size + 2..)?;
    }
}

/// Way to a port of this host that cuts connections as it is told.
pub struct BrokenWay {
    port: u16,
    stop: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
}

impl BrokenWay {
    /// `life` draws how many bytes of each further connection pass to the server, and how many to the client, before it is cut.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn to(port: u16, mut life: impl FnMut() -> (u64, u64) + Send + 'static) -> BrokenWay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = listener.local_addr().expect("an address").port();
        let (stop, cuts) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let way = BrokenWay {
            port: own,
            stop: stop.clone(),
            cuts: cuts.clone(),
        };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port)))
                else {
                    continue;
                };
                let (up, down) = life();
                for (from, to, most) in [(&client, &server, up), (&server, &client, down)] {
                    let ends = (from.try_clone(), to.try_clone());
                    let (Ok(from), Ok(to)) = ends else { continue };
                    let cuts = cuts.clone();
                    std::thread::spawn(move || pass(&from, &to, most, &cuts));
                }
            }
        });
        way
    }

    /// Port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections that were cut.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for BrokenWay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Passes so many bytes on, and then ends both directions.
fn pass(mut from: &TcpStream, mut to: &TcpStream, most: u64, cuts: &AtomicU64) {
    let mut left = most;
    let mut piece = [0; 16_384];
    while left > 0 {
        let Ok(read @ 1..) = from.read(&mut piece) else {
            let _ = to.shutdown(Shutdown::Write);
            return;
        };
        let read = read.min(usize::try_from(left).unwrap_or(usize::MAX));
        if to.write_all(&piece[..read]).is_err() {
            return;
        }
        left -= read as u64;
    }
    cuts.fetch_add(1, Ordering::Relaxed);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
