//! Conversation with the hub: HTTP/1.1 inside TLS 1.3, each request signed.

use crate::http::Http;
use crate::identity::{Identity, Signature};
use crate::unix_s;
use crate::wire::{Refusal, SCHEME, request_text};
use anyhow::{Context, anyhow};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use measure::keys::Pin;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

const ANSWER: Duration = Duration::from_secs(120);
/// Errors of a connection that the other side closed.
const CLOSED: [io::ErrorKind; 3] = [
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::BrokenPipe,
];

/// Address of a hub: `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(String);

impl FromStr for Address {
    type Err = String;
    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("{text:?} is no hub: write it as https://HOST:PORT");
        let rest = text.strip_prefix("https://").ok_or_else(wrong)?;
        let rest = rest.trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
        match port.parse::<u16>() {
            Ok(1..) if is_host => Ok(Address(rest.into())),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = String;
    fn try_from(text: String) -> Result<Address, String> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.0)
    }
}

/// Refusal that repeating does not change.
#[derive(Debug, thiserror::Error)]
#[error("the hub refuses: {why}")]
pub struct HubRefuses {
    pub status: u16,
    pub why: String,
}

/// Connection that the hub closed before it spoke: it has too many, of all or of this network. Repeating it helps.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} closes the connection before TLS begins ({why}): the hub is busy, or no hub listens there"
)]
pub(super) struct HubBusy {
    address: Address,
    why: io::Error,
}

/// Open connection to the hub.
pub struct Client {
    http: Http,
    /// Name of the point and its key; none before it has joined.
    signer: Option<(String, Arc<Identity>)>,
    host: String,
    /// Bytes of all requests and answers, without headers.
    pub(super) sent: u64,
    /// Longest time for an answer.
    answer: Duration,
}

async fn connect(address: &Address, pin: Pin) -> anyhow::Result<TlsStream<TcpStream>> {
    let seen = Arc::new(Mutex::new(None));
    let config = live::pipe::pinned(pin, &seen)?;
    let stream = TcpStream::connect(&address.0)
        .await
        .with_context(|| format!("cannot reach {address}"))?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(live::pipe::NAME)?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await;
    stream.map_err(
        |e| match *seen.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(other) => anyhow!(
                "{address} is not the hub of this code or token: its key is {other}, expected is {pin}"
            ),
            None if CLOSED.contains(&e.kind()) => HubBusy {
                address: address.clone(),
                why: e,
            }
            .into(),
            None => anyhow!("no TLS with {address}: {e}"),
        },
    )
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// The hub cannot be reached, or another server answers.
    pub fn connect(
        address: &Address,
        pin: Pin,
        signer: Option<(String, Arc<Identity>)>,
    ) -> anyhow::Result<Client> {
        Ok(Client {
            http: Http::connect("the hub", &address.to_string(), connect(address, pin))?,
            signer,
            host: address.0.clone(),
            sent: 0,
            answer: ANSWER,
        })
    }

    /// Sets the longest time for an answer.
    pub(super) fn answers_within(&mut self, time: Duration) {
        self.answer = time;
    }

    /// Reads answers up to this size, bytes, that come within this time.
    pub(crate) fn reads_up_to(&mut self, most: usize, time: Duration) {
        self.http.most = most;
        self.answer = time;
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// `HubRefuses` if the hub says no; a connection that broke; an answer that is none of the hub.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        range: Option<(u64, u64)>,
        body: Vec<u8>,
    ) -> anyhow::Result<T> {
        let bytes = self.exchange(method, path, range, body)?;
        // A captive portal answers 200, too, but not what was asked.
        serde_json::from_slice(&bytes).context("the answer is not that of a hub")
    }

    /// Reads a piece of a file.
    ///
    /// # Errors
    /// Errors of [`Client::call`].
    pub fn fetch(&mut self, path: &str, range: (u64, u64)) -> anyhow::Result<Bytes> {
        self.exchange(Method::GET, path, Some(range), Vec::new())
    }

    fn exchange(
        &mut self,
        method: Method,
        path: &str,
        range: Option<(u64, u64)>,
        body: Vec<u8>,
    ) -> anyhow::Result<Bytes> {
        let range = range.map_or(String::new(), |(from, to)| format!("bytes {from}-{to}/*"));
        let mut request = Request::builder()
            .method(&method)
            .uri(path)
            .header("host", &self.host);
        if !range.is_empty() {
            request = request.header("content-range", &range);
        }
        if let Some((point, identity)) = &self.signer {
            let now = unix_s();
            let text = request_text(method.as_str(), path, &range, now, &body);
            let signature: Signature = identity.sign(&text);
            request = request.header(
                "authorization",
                format!("{SCHEME} {point} {now} {signature}"),
            );
        }
        self.sent += body.len() as u64;
        let request = request.body(Full::new(Bytes::from(body)))?;
        let (status, bytes) = self.http.exchange(request, self.answer)?;
        self.sent += bytes.len() as u64;
        match status.is_success() {
            true => Ok(bytes),
            false => Err(refused(status, &bytes)),
        }
    }
}

fn refused(status: StatusCode, bytes: &[u8]) -> anyhow::Error {
    let refusal: Result<Refusal, _> = serde_json::from_slice(bytes);
    let why = match refusal {
        Ok(refusal) => base::text::clean(&refusal.error).into_owned(),
        Err(_) => format!("status {status}"),
    };
    if status.is_client_error() {
        return anyhow!(HubRefuses {
            status: status.as_u16(),
            why
        });
    }
    anyhow!("the hub has failed: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_and_others_are_refused() {
        for good in [
            "https://hub.example:8443",
            "https://[2001:db8::1]:443",
            "https://10.0.0.1:1/",
        ] {
            let address: Address = good.parse().unwrap();
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        for bad in [
            "",
            "hub:8443",
            "http://hub:8443",
            "https://hub",
            "https://hub:0",
            "https://:8443",
            "https://hub:99999",
            "https://hub/x:1",
            "https://a@b:1",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad:?}");
        }
    }
}
