//! Requests of agents, over HTTP.

use super::Hub;
use super::intake::IntakeError;
use super::share::{Page, is_share};
use crate::identity::{PublicKey, Signature};
use crate::manifest::Manifest;
use crate::plan::is_name;
use crate::unix_s;
use crate::wire::{
    CHUNK, Enrol, Enrolled, Have, LiveAnswer, LiveValues, MAX_MESSAGE, Offer, OrderRequest, Proof,
    ProofRequest, Receipt, Refusal, SCHEME, SignedPlan, State, StateAnswer, TurnAnswer,
    TurnRequest, WaitRequest, request_text,
};
use crate::{consent, durable};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State as Shared};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::{BodyExt, Limited};
use live::door::Place;
use measure::keys::from_hex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// Longest name of a server, and longest turn, s: a run takes a week at most.
const NAME: usize = 256;
const TURN_S: u64 = 8 * 86_400;

/// Longest time of a request's body.
const BODY: Duration = Duration::from_secs(600);

/// Refusal with its HTTP status.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        json(self.0, &Refusal { error: self.1 })
    }
}

impl From<anyhow::Error> for Refused {
    fn from(e: anyhow::Error) -> Refused {
        // The operator reads the cause; a stranger learns nothing of the hub's disk.
        eprintln!("tailback hub: {e:#}");
        if durable::is_full(&e) {
            return Refused(
                StatusCode::INSUFFICIENT_STORAGE,
                "the hub's disk is full; the recording stays at the point".into(),
            );
        }
        Refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the hub has failed; try again later".into(),
        )
    }
}

impl From<rusqlite::Error> for Refused {
    fn from(e: rusqlite::Error) -> Refused {
        anyhow::Error::from(e).into()
    }
}

impl From<IntakeError> for Refused {
    fn from(e: IntakeError) -> Refused {
        let status = match &e {
            IntakeError::Gap { .. } | IntakeError::Torn => StatusCode::CONFLICT,
            IntakeError::Taken => StatusCode::UNPROCESSABLE_ENTITY,
            IntakeError::Ended => StatusCode::GONE,
            IntakeError::NoSharing => StatusCode::FORBIDDEN,
            IntakeError::InTransfer | IntakeError::Quota { .. } => StatusCode::INSUFFICIENT_STORAGE,
            IntakeError::Large
            | IntakeError::Share { .. }
            | IntakeError::Rows { .. }
            | IntakeError::Files => StatusCode::PAYLOAD_TOO_LARGE,
            IntakeError::Failed(_) => {
                let IntakeError::Failed(e) = e else {
                    unreachable!()
                };
                return e.into();
            }
            _ => StatusCode::BAD_REQUEST,
        };
        Refused(status, e.to_string())
    }
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => (status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|e| Refused(StatusCode::BAD_REQUEST, format!("not understood: {e}")))
}

/// Request whose sender is known.
struct Signed {
    point: String,
    body: Bytes,
    headers: HeaderMap,
}

fn header_text<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> &'h str {
    headers
        .get(name)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
}

/// Sender that a request names, with its time and signature.
fn claimed(headers: &HeaderMap) -> Option<(String, i64, Signature)> {
    let text = header_text(headers, &header::AUTHORIZATION).strip_prefix(SCHEME)?;
    let mut words = text.split_ascii_whitespace();
    let (point, time, signature) = (words.next()?, words.next()?, words.next()?);
    is_name(point).then_some(())?;
    Some((
        point.into(),
        time.parse().ok()?,
        Signature(from_hex(signature)?),
    ))
}

/// Refusal of a sender who is neither a point nor an operator.
fn stranger(of: &str) -> Refused {
    let why = format!("the signature is not that of {of}");
    Refused(StatusCode::UNAUTHORIZED, why)
}

/// Reads a request to its end and checks its signature. No body is read before the sender is known to be a point.
async fn signed(hub: &Arc<Hub>, request: Request<Body>) -> Result<Signed, Refused> {
    let stranger = || stranger("a point");
    let (head, body) = request.into_parts();
    let (point, time, signature) = claimed(&head.headers).ok_or_else(stranger)?;
    let known = {
        let (hub, name) = (hub.clone(), point.clone());
        blocking(move || Ok(hub.ledger().point(&name)?)).await?
    };
    let known = known.ok_or_else(stranger)?;
    keep_place(&head);
    let body = proven(&head, body, (&known.public_key, time, &signature)).await?;
    let body = body.ok_or_else(stranger)?;
    if known.revoked {
        let why = "the hub has ended this point's access".into();
        return Err(Refused(StatusCode::GONE, why));
    }
    Ok(Signed {
        point,
        body,
        headers: head.headers,
    })
}

/// Lets the connection of this request keep its place.
fn keep_place(head: &Parts) {
    if let Some(place) = head.extensions.get::<Arc<Place>>() {
        place.keep();
    }
}

/// Body of a request; none if this key has not signed it.
async fn proven(
    head: &Parts,
    body: Body,
    (key, time, signature): (&PublicKey, i64, &Signature),
) -> Result<Option<Bytes>, Refused> {
    let body = whole(body).await?;
    let range = header_text(&head.headers, &header::CONTENT_RANGE);
    let path = head.uri.path();
    let text = request_text(head.method.as_str(), path, range, time, &body);
    Ok(key.has_signed(&text, signature).then_some(body))
}

/// Carries out the order of an operator. No body is read before the sender is known to be one.
async fn order(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let stranger = || stranger("an operator; ask for a new token (`tailback hub operator`)");
    let (head, body) = request.into_parts();
    let (key, time, signature) = claimed(&head.headers).ok_or_else(stranger)?;
    let key = PublicKey::try_from(key).map_err(|_| stranger())?;
    let name = {
        let hub = hub.clone();
        blocking(move || Ok(hub.ledger().operator(&key)?)).await?
    };
    let name = name.ok_or_else(stranger)?;
    keep_place(&head);
    let body = proven(&head, body, (&key, time, &signature)).await?;
    let asked: OrderRequest = parsed(&body.ok_or_else(stranger)?)?;
    let told = blocking(move || {
        let hub = hub.for_operator(&name)?;
        hub.obey(&asked.order, asked.look, &mut ())
            .map_err(|e| match ops::is_usage(&e) {
                true => Refused(StatusCode::BAD_REQUEST, format!("{e:#}")),
                false => e.into(),
            })
    })
    .await?;
    Ok(json(StatusCode::OK, &told))
}

/// The same request, if its sender is a point of the fleet rather than that of a shared recording.
fn member(asked: Signed) -> Result<Signed, Refused> {
    if is_share(&asked.point) {
        let why = "a code for sharing is good for one recording only";
        return Err(Refused(StatusCode::FORBIDDEN, why.into()));
    }
    Ok(asked)
}

async fn whole(body: Body) -> Result<Bytes, Refused> {
    let most = CHUNK.max(MAX_MESSAGE) + 1024;
    let read = Limited::new(body, most).collect();
    let Ok(read) = tokio::time::timeout(BODY, read).await else {
        let why = format!("a request's body takes at most {} s", BODY.as_secs());
        return Err(Refused(StatusCode::REQUEST_TIMEOUT, why));
    };
    let large = |_| {
        Refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a request has at most {most} bytes"),
        )
    };
    Ok(read.map_err(large)?.to_bytes())
}

/// Runs work that waits for the disk on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => Err(anyhow::Error::from(e).into()),
    }
}

async fn enrol(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let asked: Enrol = parsed(&whole(request.into_body()).await?)?;
    let refused = || {
        Refused(
            StatusCode::FORBIDDEN,
            "the code is unknown, expired or used; ask the operator for a new one (`tailback hub invite`)".into(),
        )
    };
    let secret = from_hex(&asked.secret).ok_or_else(refused)?;
    let answer = blocking(move || {
        let name = hub.invited_as(&secret)?.ok_or_else(refused)?;
        let (text, is_open) = match is_share(&name) {
            true => (consent::SHARING, hub.sharing.is_some()),
            false => (consent::CONSENT, true),
        };
        if !is_open {
            return Err(IntakeError::NoSharing.into());
        }
        if asked.consent != consent::version(text) {
            let why = "the text about what is sent has another version here, or the code is for another purpose: \
                codes for points come from `tailback hub invite --name NAME`, codes for `tailback share` from `tailback hub invite --share`";
            return Err(Refused(StatusCode::CONFLICT, why.into()));
        }
        let name = hub.enrol(&secret, &asked.public_key, &asked.consent)?;
        Ok(Enrolled {
            point: name.ok_or_else(refused)?,
            hub_key: hub.public_key(),
            unix_s: unix_s(),
            release_key: hub.release_key()?,
        })
    })
    .await?;
    Ok(json(StatusCode::OK, &answer))
}

async fn plan(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    member(signed(&hub, request).await?)?;
    let plan: Option<SignedPlan> = blocking(move || Ok(hub.ledger().plan()?)).await?;
    Ok(json(StatusCode::OK, &plan))
}

async fn state(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let asked = member(signed(&hub, request).await?)?;
    let told: State = parsed(&asked.body)?;
    let answer = blocking(move || {
        let now = unix_s();
        let runs_until = hub.ledger().add_state(&asked.point, now, &told)?;
        let release = hub.release_for(&asked.point, &told)?;
        let ledger = hub.ledger();
        Ok(StateAnswer {
            unix_s: now,
            plan: ledger.plan()?.map_or(0, |p| p.number),
            runs_until,
            release,
            asked: ledger.asked_runs(&asked.point, now, told.asked_until)?,
        })
    })
    .await?;
    Ok(json(StatusCode::OK, &answer))
}

async fn turn(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let asked = member(signed(&hub, request).await?)?;
    let told: TurnRequest = parsed(&asked.body)?;
    if told.server.len() > NAME || told.for_s > TURN_S {
        let why = format!("a turn has at most {TURN_S} s, a server's name {NAME} bytes");
        return Err(Refused(StatusCode::BAD_REQUEST, why));
    }
    let answer = blocking(move || {
        let now = unix_s();
        let slot = (&*asked.point, &*told.server);
        let until_s = hub.ledger().take_turn(slot, now, told.for_s)?;
        let wait_s = until_s.map(|until| (until - now).max(1).unsigned_abs());
        Ok(TurnAnswer { wait_s })
    })
    .await?;
    Ok(json(StatusCode::OK, &answer))
}

async fn wait(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let asked = member(signed(&hub, request).await?)?;
    let knows: WaitRequest = parsed(&asked.body)?;
    let answer = hub.push.wait(&asked.point, &knows).await;
    let answer = answer.ok_or_else(|| {
        let why = "too many points wait for news; reports go on".into();
        Refused(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    Ok(json(StatusCode::OK, &answer))
}

async fn live(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let asked = member(signed(&hub, request).await?)?;
    let told: LiveValues = parsed(&asked.body)?;
    let go_on = hub.push.take(&asked.point, told.probes);
    Ok(json(StatusCode::OK, &LiveAnswer { go_on }))
}

/// Begin of a piece: `bytes FROM-`, as in `Content-Range`.
fn begin_of(range: &str) -> Result<u64, Refused> {
    let text = range.strip_prefix("bytes ").and_then(|r| r.split_once('-'));
    text.and_then(|(from, _)| from.parse().ok()).ok_or_else(|| {
        Refused(
            StatusCode::BAD_REQUEST,
            "Content-Range is `bytes FROM-TO/*`".into(),
        )
    })
}

async fn piece(
    Shared(hub): Shared<Arc<Hub>>,
    Path((recording, part)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Refused> {
    let is_question = request.method() == Method::GET;
    let asked = signed(&hub, request).await?;
    let answer = blocking(move || {
        let bytes = if is_question {
            hub.have(&asked.point, &recording, &part)?
        } else {
            let from = begin_of(header_text(&asked.headers, &header::CONTENT_RANGE))?;
            hub.put(&asked.point, &recording, &part, from, &asked.body)?
        };
        Ok(Have { bytes })
    })
    .await?;
    Ok(json(StatusCode::OK, &answer))
}

async fn close(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let asked = signed(&hub, request).await?;
    let manifest: Manifest = parsed(&asked.body)?;
    let receipt: Receipt = blocking(move || Ok(hub.close(&asked.point, &manifest)?)).await?;
    Ok(json(StatusCode::OK, &receipt))
}

/// Piece of a release.
async fn release(
    Shared(hub): Shared<Arc<Hub>>,
    Path((version, target)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Refused> {
    let asked = member(signed(&hub, request).await?)?;
    let from = begin_of(header_text(&asked.headers, &header::CONTENT_RANGE))?;
    let none = || Refused(StatusCode::NOT_FOUND, "there is no such release".into());
    let piece = blocking(move || {
        let version = version.parse().map_err(|_| none())?;
        hub.release_piece(version, &target, from)?.ok_or_else(none)
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], piece).into_response())
}

async fn proof(Shared(hub): Shared<Arc<Hub>>, request: Request<Body>) -> Result<Response, Refused> {
    let asked = member(signed(&hub, request).await?)?;
    let told: ProofRequest = parsed(&asked.body)?;
    let stored = blocking(move || {
        let stored = hub
            .ledger()
            .prove_release(&asked.point, told.version, unix_s())?;
        Ok(stored)
    })
    .await?;
    Ok(json(StatusCode::OK, &Proof { stored }))
}

/// Terms under which the hub takes shared recordings.
async fn offer(Shared(hub): Shared<Arc<Hub>>) -> Result<Response, Refused> {
    let limits = hub.sharing.ok_or(IntakeError::NoSharing)?;
    let offer = Offer {
        consent: consent::SHARING.into(),
        largest_bytes: limits.each,
    };
    Ok(json(StatusCode::OK, &offer))
}

/// Deletes what a point or a shared recording has sent, and ends its access, as the holder of its key wishes.
async fn withdraw(
    Shared(hub): Shared<Arc<Hub>>,
    request: Request<Body>,
) -> Result<Response, Refused> {
    let asked = signed(&hub, request).await?;
    blocking(move || Ok(hub.delete(&asked.point, &asked.point)?)).await?;
    Ok(json(StatusCode::OK, &Have { bytes: 0 }))
}

/// Policy of a shared recording's page: nothing is loaded, nobody is asked, and the page has no origin of its own.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads";

fn page(status: StatusCode, body: Vec<u8>) -> Response {
    let headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", PAGE_POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-robots-tag", "noindex"),
    ];
    (status, headers, body).into_response()
}

async fn shared(
    Shared(hub): Shared<Arc<Hub>>,
    Path(address): Path<String>,
) -> Result<Response, Refused> {
    let found = {
        let (hub, address) = (hub.clone(), address.clone());
        blocking(move || Ok(hub.shared_page(&address)?)).await?
    };
    let words =
        |text: &str| format!("<!doctype html><meta charset=\"utf-8\"><p>{text}").into_bytes();
    Ok(match found {
        Page::Ready(body) => page(StatusCode::OK, body),
        Page::Withdrawn => page(StatusCode::GONE, words("This recording was withdrawn.")),
        Page::Unknown => page(StatusCode::NOT_FOUND, words("There is no recording here.")),
        Page::Missing => {
            tokio::task::spawn_blocking(move || {
                if let Err(e) = hub.draw_shared(&address) {
                    eprintln!("tailback hub: {e:#}");
                }
            });
            let again = "<meta http-equiv=\"refresh\" content=\"1\">Drawing the report …";
            page(StatusCode::ACCEPTED, words(again))
        }
    })
}

async fn unknown(uri: Uri) -> Refused {
    let path: String = uri.path().chars().take(80).collect();
    Refused(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {}", base::text::clean(&path)),
    )
}

/// All requests that the hub answers.
pub(super) fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/v1/enrol", post(enrol))
        .route("/v1/plan", get(plan))
        .route("/v1/state", post(state))
        .route(
            "/v1/recordings/{recording}/files/{*part}",
            get(piece).put(piece),
        )
        .route("/v1/turn", post(turn))
        .route("/v1/wait", post(wait))
        .route("/v1/live", post(live))
        .route("/v1/releases/{version}/{target}", get(release))
        .route("/v1/proof", post(proof))
        .route("/v1/close", post(close))
        .route("/v1/share", get(offer))
        .route("/v1/withdraw", post(withdraw))
        .route("/v1/order", post(order))
        .route("/shared/{address}", get(shared))
        .fallback(unknown)
        .layer(DefaultBodyLimit::disable())
        .with_state(hub)
}
