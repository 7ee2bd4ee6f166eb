//! Fresh connections to a responsiveness server, each with one request for its small object: the foreign part of the
//! responsiveness score (draft-ietf-ippm-responsiveness, section 4.3), without the time of TLS.

use super::http::{PATIENCE, Web};
use crate::clock::{Clock, mono_ns};
use crate::load::event;
use crate::load::kernel::close_abruptly;
use crate::tally::Tally;
use base::record::{Delay, Row, Status};
use experiment::host::Fresh as Plan;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait before the stop flag is checked.
const TICK: Duration = Duration::from_millis(50);
const CONNECT: &str = "tcp-connect";
const REQUEST: &str = "tcp-request";

/// Running connections. Dropping it stops them; those in flight are not written, because their result is unknown.
pub(super) struct Fresh {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Server, object and receivers of each connection.
#[derive(Clone)]
struct Asked {
    web: Arc<Web>,
    path: String,
    clock: Clock,
    rows: Sender<Row>,
    tally: Tally,
    /// True once a fault was written: a link that is down would repeat it.
    complained: Arc<AtomicBool>,
}

impl Fresh {
    /// Starts connections, if the server has a small object.
    ///
    /// # Errors
    /// No runtime, or no thread.
    pub fn start(
        web: &Arc<Web>,
        plan: Plan,
        clock: Clock,
        rows: Sender<Row>,
        tally: Tally,
    ) -> io::Result<Option<Fresh>> {
        let Some(path) = web.small.clone() else {
            return Ok(None);
        };
        let asked = Asked {
            web: web.clone(),
            path,
            clock,
            rows,
            tally,
            complained: Arc::default(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("foreign".into())
            .spawn(move || {
                runtime.block_on(all(&asked, plan, &stopped));
                runtime.shutdown_background();
            })?;
        Ok(Some(Fresh {
            stop,
            thread: Some(thread),
        }))
    }
}

/// Starts a connection at each slot. A slot that comes due while too many are open is written as not sent.
async fn all(asked: &Asked, plan: Plan, stop: &AtomicBool) {
    let interval = plan.interval.as_nanos().max(1_000_000) as i64;
    let first = mono_ns();
    let open = Arc::new(AtomicUsize::new(0));
    let mut seq = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = mono_ns();
        let due = first + seq * interval;
        if due > now {
            let left = Duration::from_nanos((due - now) as u64);
            tokio::time::sleep(left.min(TICK)).await;
            continue;
        }
        if now - due >= interval || open.load(Ordering::Relaxed) >= plan.at_once {
            asked.write(CONNECT, seq, due, None, Status::NotSent);
        } else {
            let (asked, open) = (asked.clone(), open.clone());
            open.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                asked.one(seq).await;
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
        seq += 1;
    }
}

impl Asked {
    async fn one(&self, seq: i64) {
        let began = mono_ns();
        let connecting = self.web.outlet.connect(self.web.server);
        let stream = match timeout(PATIENCE, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => {
                self.write(CONNECT, seq, began, None, Status::Lost);
                return self.complain(&e.to_string());
            }
            Err(_) => return self.write(CONNECT, seq, began, None, Status::Lost),
        };
        self.write(CONNECT, seq, began, Some(mono_ns() - began), Status::Ok);
        let copied = stream
            .into_std()
            .and_then(|std| Ok((std.try_clone()?, std)));
        let (socket, stream) = match copied {
            Ok(both) => both,
            Err(e) => return self.complain(&e.to_string()),
        };
        match self.request(stream).await {
            Ok((sent, took)) => self.write(REQUEST, seq, sent, Some(took), Status::Ok),
            Err(why) => {
                self.write(REQUEST, seq, began, None, Status::Lost);
                self.complain(&why);
            }
        }
        self.tally.connection(&socket);
        close_abruptly(&socket);
    }

    /// Gives the time of the request, and the time until its answer.
    async fn request(&self, stream: TcpStream) -> Result<(i64, i64), String> {
        let told = |e: super::ViaError| e.to_string();
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let connected = self.web.shelter(stream).await.map_err(told)?;
        let mut sender = self.web.sender(connected).await.map_err(told)?;
        let sent = mono_ns();
        self.web
            .fetch(&mut sender, &self.path)
            .await
            .map_err(told)?;
        Ok((sent, mono_ns() - sent))
    }

    fn write(&self, target: &str, seq: i64, mono: i64, rtt_ns: Option<i64>, status: Status) {
        let _ = self.rows.send(Row::Delay(Delay {
            rtt_ns,
            status,
            ..Delay::unanswered(self.clock.from_mono_ns(mono), seq, target.into())
        }));
    }

    fn complain(&self, why: &str) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            event(&self.clock, &self.rows, "fault", CONNECT, why);
        }
    }
}
