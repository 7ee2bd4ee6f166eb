//! Loads over HTTP: a download is a response without end, an upload a request without end, or messages of a WebSocket.

use super::body::{Body, plain, stream};
use super::client::Client;
use super::sessions::Running;
use crate::clock::mono_ns;
use crate::load::kernel::random_bytes;
use crate::serve::journal::name;
use crate::serve::quota::{FlowPermit, Refused, Use};
use base::record::Direction;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use hyper::http::StatusCode;
use measure::control::{Ended, FlowSpec, Refusal, SessionId};
use measure::web::{Asked, SAMPLE};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// Payload handed on at once.
const CHUNK: usize = 64 << 10;
/// Chunks that wait for the network.
const WAITING: usize = 2;
/// Time without a byte after which a load ends.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// Interval of the looks at the end of a load.
const LOOK: Duration = Duration::from_millis(250);

/// Whose load it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A page's, which has an open channel.
    Page,
    /// Another tool's.
    Guest,
}

/// Load of a client that has no page.
pub(super) fn anonymous(longest: base::Duration) -> Asked {
    Asked {
        session: SessionId(random_bytes()),
        flow: 0,
        duration: longest,
    }
}

/// Starts the flow of a load, if its page has a channel, or it needs none, and its client may load.
pub(super) fn flow<'a>(
    client: &'a Client,
    asked: &Asked,
    whose: Whose,
    direction: Direction,
) -> Result<FlowPermit<'a>, Refused> {
    client.admit()?;
    if whose == Whose::Page && !client.site.sessions.has(asked.session) {
        let text = "this load belongs to no open page: load the page again";
        return Err((Refusal::UnknownSession, text.into()));
    }
    let spec = FlowSpec {
        session: asked.session,
        flow: asked.flow,
        duration: asked.duration,
        sample: SAMPLE,
    };
    let usage = match direction {
        Direction::Down => Use::Download,
        Direction::Up => Use::Upload,
    };
    let flow = client
        .shared
        .quota
        .flow(&client.permit, &spec, direction, usage)?;
    client.shared.counters.flows.fetch_add(1, Ordering::Relaxed);
    Ok(flow)
}

/// Response to a page that may not do what it asks for.
pub(super) fn refusal(client: &Client, (why, text): Refused) -> Response<Body> {
    client.refused(why, &text);
    let status = match why {
        Refusal::Busy | Refusal::Loaded | Refusal::Spent => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::FORBIDDEN,
    };
    plain(status, &format!("{}: {text}\n", name(why)))
}

/// Time of the flow's end, monotonic ns.
fn until(flow: &FlowPermit) -> i64 {
    mono_ns() + i64::try_from(flow.duration.as_nanos()).unwrap_or(i64::MAX / 2)
}

pub(super) fn end(flow: &FlowPermit, ended: Ended) {
    flow.with_report(|r| r.ended = ended);
}

/// Waits until the server's rate limit lets more pass.
pub(super) async fn wait(client: &Client) {
    let wait = client.shared.ceiling.wait_ns(mono_ns());
    if wait > 0 {
        sleep(Duration::from_nanos(wait.unsigned_abs())).await;
    }
}

/// Sends until the page has enough, or its time or budget is over.
pub(super) async fn down(client: Rc<Client>, asked: Asked, whose: Whose) -> Response<Body> {
    let (to, from) = mpsc::channel(WAITING);
    let (tell, told) = oneshot::channel();
    let its = client.clone();
    tokio::task::spawn_local(async move {
        match flow(&its, &asked, whose, Direction::Down) {
            Err(e) => drop(tell.send(Err(e))),
            Ok(flow) => {
                drop(tell.send(Ok(())));
                send(&its, flow, &to).await;
            }
        }
    });
    match told.await {
        Ok(Ok(())) => stream(Body::Flow(from)),
        Ok(Err(e)) => refusal(&client, e),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the load ended\n"),
    }
}

async fn send(client: &Client, mut flow: FlowPermit<'_>, to: &mpsc::Sender<Bytes>) {
    let shared = &client.shared;
    let payload = shared.payload.get_or_init(crate::load::pump::Payload::new);
    let (until, mut total) = (until(&flow), 0u64);
    let size = CHUNK.min(shared.ceiling.chunk());
    loop {
        if shared.stop.load(Ordering::Relaxed) || mono_ns() >= until {
            return end(&flow, Ended::TimeUp);
        }
        wait(client).await;
        let chunk = payload.chunk(total as usize);
        let chunk = Bytes::copy_from_slice(&chunk[..size.min(chunk.len())]);
        let n = chunk.len() as u64;
        match timeout(PATIENCE, to.send(chunk)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return end(&flow, Ended::ByClient),
            Err(_) => return end(&flow, Ended::Failed),
        }
        total += n;
        shared.ceiling.book(mono_ns(), n);
        shared.counters.bytes_sent.fetch_add(n, Ordering::Relaxed);
        if !flow.spend(total) {
            return end(&flow, Ended::Budget);
        }
    }
}

/// Upload in progress: counts what arrives.
pub(super) struct Receiving<'a> {
    client: &'a Client,
    flow: FlowPermit<'a>,
    running: Running,
    until: i64,
    total: u64,
    heard: i64,
}

impl<'a> Receiving<'a> {
    pub(super) fn start(
        client: &'a Client,
        asked: &Asked,
        whose: Whose,
    ) -> Result<Receiving<'a>, Refused> {
        let flow = flow(client, asked, whose, Direction::Up)?;
        let running = match whose {
            Whose::Page => client.site.sessions.upload(asked.session, asked.flow),
            Whose::Guest => Some(Running::alone(asked.flow)),
        };
        let running = running.ok_or((Refusal::Busy, "too many uploads of one page".to_owned()))?;
        Ok(Receiving {
            client,
            until: until(&flow),
            flow,
            running,
            total: 0,
            heard: mono_ns(),
        })
    }

    /// Counts bytes; false if the upload is over.
    pub(super) async fn took(&mut self, bytes: usize) -> bool {
        let (n, shared) = (bytes as u64, &self.client.shared);
        self.total += n;
        self.heard = mono_ns();
        self.running.0.bytes.store(self.total, Ordering::Relaxed);
        shared
            .counters
            .bytes_received
            .fetch_add(n, Ordering::Relaxed);
        shared.ceiling.book(self.heard, n);
        if !self.flow.spend(self.total) {
            end(&self.flow, Ended::Budget);
            return false;
        }
        wait(self.client).await;
        self.goes_on()
    }

    /// False if the time of the upload is over, or nothing comes any more.
    pub(super) fn goes_on(&self) -> bool {
        let now = mono_ns();
        let silent = now - self.heard > PATIENCE.as_nanos() as i64;
        if silent {
            self.flow.give_up(crate::serve::quota::IDLE);
            end(&self.flow, Ended::Budget);
        } else if now >= self.until || self.client.shared.stop.load(Ordering::Relaxed) {
            end(&self.flow, Ended::TimeUp);
        } else if self.running.0.stopped.load(Ordering::Relaxed) {
            end(&self.flow, Ended::ByClient);
        } else {
            return true;
        }
        false
    }

    /// Ends an upload that its page ended.
    pub(super) fn finish(self) -> u64 {
        end(&self.flow, Ended::ByClient);
        self.total
    }
}

/// Receives the body of a request until its page ends it.
pub(super) async fn up(
    client: Rc<Client>,
    asked: Asked,
    whose: Whose,
    mut body: Incoming,
) -> Response<Body> {
    let mut receiving = match Receiving::start(&client, &asked, whose) {
        Ok(receiving) => receiving,
        Err(e) => return refusal(&client, e),
    };
    loop {
        let goes_on = match timeout(LOOK, body.frame()).await {
            Err(_) => receiving.goes_on(),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => receiving.took(data.len()).await,
                Err(_) => true,
            },
            Ok(None | Some(Err(_))) => {
                let total = receiving.finish();
                return plain(StatusCode::OK, &format!("{total}\n"));
            }
        };
        if !goes_on {
            return plain(StatusCode::OK, &format!("{}\n", receiving.total));
        }
    }
}
