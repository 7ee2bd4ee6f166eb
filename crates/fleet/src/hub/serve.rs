//! The hub's listening socket: TLS 1.3, connections with limits.

use super::{Hub, Target, clickhouse, routes};
use anyhow::Context;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use live::door::{Door, Place};
use ops::tell::{Teller, Ways};
use ops::{Event, Progress};
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Connections at once beside those of points that wait for news; more are closed at once, and the agents come again.
const CONNECTIONS: usize = 512;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADER: Duration = Duration::from_secs(20);
/// Longest time of one connection: points that wait for news keep theirs.
const CONNECTION: Duration = Duration::from_secs(3600);
const REFRESH_EVERY: Duration = Duration::from_secs(1);
const DIGEST_EVERY: Duration = Duration::from_secs(60);
const TELL_EVERY: Duration = Duration::from_secs(5);
const ROLL_OUT_EVERY: Duration = Duration::from_secs(5);
const INTERRUPT_POLL: Duration = Duration::from_millis(100);

/// Serves agents until `stop` says so, and tells changes of the fleet to those who are to have alerts. Rows of stored recordings go to
/// `second`, too. `ready` is told the address.
///
/// # Errors
/// The address cannot be opened, another process serves this directory, or store and ledger differ.
pub fn serve(
    hub: Hub,
    listen: SocketAddr,
    alerts: &Ways,
    second: Option<Target>,
    ready: &mut dyn FnMut(SocketAddr),
    stop: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let lock =
        File::create(hub.data.join("hub.lock")).context("cannot write to the hub's directory")?;
    if lock.try_lock().is_err() {
        anyhow::bail!("another process serves {}", hub.data.display());
    }
    for fault in hub.settle()? {
        eprintln!("tailback hub: {fault}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build()
        .context("cannot start the hub")?;
    runtime.block_on(async {
        let opened = TcpListener::bind(listen).await;
        let listener = opened.with_context(|| format!("cannot listen on {listen}"))?;
        ready(listener.local_addr()?);
        let hub = Arc::new(hub);
        let ended = Arc::new(AtomicBool::new(false));
        tokio::spawn(digest(hub.clone(), ended.clone()));
        tokio::spawn(roll_out(hub.clone()));
        tokio::spawn(refresh(hub.clone()));
        if let Some(target) = second {
            let (hub, ended) = (hub.clone(), ended.clone());
            let send = move || clickhouse::run(&hub, &target, &|| ended.load(Ordering::Relaxed));
            std::thread::Builder::new()
                .name("clickhouse".into())
                .spawn(send)
                .context("cannot start a thread")?;
        }
        if *alerts != Ways::default() {
            tokio::spawn(tell(hub.clone(), Teller::new(alerts, "--on-change")));
        }
        let accept = accept(hub.clone(), listener);
        tokio::pin!(accept);
        loop {
            if timeout(INTERRUPT_POLL, &mut accept).await.is_ok() || stop() {
                ended.store(true, Ordering::Relaxed);
                return Ok(());
            }
        }
    })
}

/// Progress of work that ends with the hub.
struct UntilEnd(Arc<AtomicBool>);

impl Progress for UntilEnd {
    fn tell(&mut self, _: Event<'_>) {}

    fn interrupted(&mut self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes the digests of new recordings, so that a report need not wait for them.
async fn digest(hub: Arc<Hub>, ended: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(DIGEST_EVERY).await;
        let (hub, mut until_end) = (hub.clone(), UntilEnd(ended.clone()));
        let digested = tokio::task::spawn_blocking(move || hub.digest(&mut until_end)).await;
        if let Ok(Err(e)) = digested {
            eprintln!("tailback hub: no digests for reports: {e:#}");
        }
    }
}

/// Moves releases on.
async fn roll_out(hub: Arc<Hub>) {
    let mut pause = ROLL_OUT_EVERY;
    loop {
        tokio::time::sleep(pause).await;
        let (began, hub) = (Instant::now(), hub.clone());
        let done = tokio::task::spawn_blocking(move || hub.roll_out()).await;
        pause = ROLL_OUT_EVERY.max(began.elapsed() * 20);
        if let Ok(Err(e)) = done {
            eprintln!("tailback hub: the release does not move on: {e:#}");
        }
    }
}

/// Finds what points are to be told.
async fn refresh(hub: Arc<Hub>) {
    loop {
        let of = hub.clone();
        let done = tokio::task::spawn_blocking(move || of.push.refresh(&of)).await;
        if let Ok(Err(e)) = done {
            eprintln!("tailback hub: points hear of news with their reports only: {e:#}");
        }
        tokio::time::sleep(REFRESH_EVERY).await;
    }
}

/// Tells changes of the points' health and of releases.
async fn tell(hub: Arc<Hub>, mut teller: Teller) {
    let host = live::host::name();
    let mut pause = TELL_EVERY;
    loop {
        tokio::time::sleep(pause).await;
        let began = Instant::now();
        let (of, name) = (hub.clone(), host.clone());
        let changes = tokio::task::spawn_blocking(move || of.changes(&name)).await;
        // A large fleet's state takes its time.
        pause = TELL_EVERY.max(began.elapsed() * 20);
        match changes {
            Ok(Ok(changes)) => {
                teller.tell(&changes, &mut |text| eprintln!("tailback hub: {text}"));
            }
            Ok(Err(e)) => eprintln!("tailback hub: no alerts: {e:#}"),
            Err(_) => {}
        }
    }
}

async fn accept(hub: Arc<Hub>, listener: TcpListener) {
    let router = routes::router(hub.clone());
    let door = Arc::<Door>::default();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            // Out of descriptors, most likely: others will close.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Some(place) = door.enter(from.ip(), CONNECTIONS + hub.push.waiting()) else {
            continue;
        };
        let (hub, router) = (hub.clone(), router.clone());
        tokio::spawn(async move {
            let talk = converse(&hub, stream, from, router, place.clone());
            tokio::select! {
                _ = timeout(CONNECTION, talk) => {}
                () = place.gives_way() => {}
            }
        });
    }
}

async fn converse(
    hub: &Hub,
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    place: Arc<Place>,
) {
    let _ = stream.set_nodelay(true);
    let (config, handshakes) = (hub.tls.config.clone(), hub.tls.handshakes());
    let Some(stream) = handshakes
        .accept(stream, config, from.ip(), HANDSHAKE)
        .await
    else {
        return;
    };
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<_>| {
        request.extensions_mut().insert(place.clone());
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .max_headers(32)
        .serve_connection(TokioIo::new(stream), service);
    // A connection that breaks is the agent's to repeat.
    let _ = connection.await;
}
