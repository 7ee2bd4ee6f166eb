//! Other tools at the site, if its operator lets them: clients of responsiveness, such as networkQuality, and of ndt7. Their
//! loads are loads of the site: one client at a time, within the server's limits.
//!
//! **Source.** draft-ietf-ippm-responsiveness, "Responsiveness under Working Conditions", section 7 (configuration of the
//! server).

use super::body::{Body, plain, whole};
use super::client::Client;
use super::load::{self, Whose, refusal};
use super::ndt7;
use base::Duration;
use base::record::Direction;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::{Method, StatusCode};
use hyper::{Request, Response};
use measure::control::Refusal;
use std::rc::Rc;

/// Longest load over one connection.
const LONGEST: Duration = Duration::from_secs(120);
/// Longest name of a host, with its port.
const LONGEST_NAME: usize = 261;

/// Answers a request that is none of the page's.
pub(super) async fn answer(client: Rc<Client>, request: Request<Incoming>) -> Response<Body> {
    let guests = client.site.guests;
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match (&method, path.as_str()) {
        (&Method::GET, "/.well-known/nq") if guests.rpm => configuration(&client, &request),
        (&Method::GET, "/nq/small") if guests.rpm => small(&client),
        (&Method::GET, "/nq/large") if guests.rpm => {
            load::down(client, load::anonymous(LONGEST), Whose::Guest).await
        }
        (&Method::POST, "/nq/upload") if guests.rpm => {
            load::up(
                client,
                load::anonymous(LONGEST),
                Whose::Guest,
                request.into_body(),
            )
            .await
        }
        (&Method::GET, "/ndt/v7/download") if guests.ndt7 => {
            ndt7::upgrade(request, client, Direction::Down).await
        }
        (&Method::GET, "/ndt/v7/upload") if guests.ndt7 => {
            ndt7::upgrade(request, client, Direction::Up).await
        }
        _ => plain(StatusCode::NOT_FOUND, "There is nothing here.\n"),
    }
}

/// Addresses of the objects, under the name by which the client has found the server.
fn configuration(client: &Client, request: &Request<Incoming>) -> Response<Body> {
    let named = request.uri().authority().map(|a| a.as_str());
    let host = named.or_else(|| request.headers().get("host")?.to_str().ok());
    let Some(host) = host.filter(|h| h.len() <= LONGEST_NAME) else {
        return plain(StatusCode::BAD_REQUEST, "The request names no host.\n");
    };
    let scheme = match client.site.identity().site {
        Some(_) => "https",
        None => "http",
    };
    let url = |object: &str| format!("{scheme}://{host}/nq/{object}");
    let json = serde_json::json!({
        "version": 1,
        "urls": {
            "small_https_download_url": url("small"),
            "large_https_download_url": url("large"),
            "https_upload_url": url("upload"),
            "small_download_url": url("small"),
            "large_download_url": url("large"),
            "upload_url": url("upload"),
        },
    });
    let body = Bytes::from(json.to_string());
    whole(StatusCode::OK, "application/json", body)
}

/// Object of one byte, which a client fetches while it loads.
fn small(client: &Client) -> Response<Body> {
    if !client.pays(1) {
        let text = "this client has moved all the bytes it may in an hour";
        return refusal(client, (Refusal::Spent, text.into()));
    }
    whole(
        StatusCode::OK,
        "application/octet-stream",
        Bytes::from_static(b"x"),
    )
}
