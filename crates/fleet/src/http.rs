//! One HTTP/1.1 connection to a server, for a thread that waits for each answer.

use anyhow::{Context, anyhow};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::time::timeout;

const CONNECT: Duration = Duration::from_secs(15);
/// Largest answer that is read, unless another is set, bytes.
const MOST: usize = 4 << 20;

/// Open connection.
pub(crate) struct Http {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    /// Words for the server in errors.
    server: &'static str,
    /// Largest answer that is read, bytes.
    pub most: usize,
}

impl Http {
    /// Connects by `stream`; `address` stands in errors.
    ///
    /// # Errors
    /// Errors of `stream`, and of a server that does not answer in time.
    pub fn connect<S>(
        server: &'static str,
        address: &str,
        stream: impl Future<Output = anyhow::Result<S>>,
    ) -> anyhow::Result<Http>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let sender = runtime.block_on(async {
            let connected = async {
                let (sender, connection) = http1::handshake(TokioIo::new(stream.await?)).await?;
                tokio::spawn(connection);
                Ok(sender)
            };
            match timeout(CONNECT, connected).await {
                Ok(done) => done,
                Err(_) => Err(anyhow!(
                    "{address} does not answer within {} s",
                    CONNECT.as_secs()
                )),
            }
        })?;
        Ok(Http {
            runtime,
            sender,
            server,
            most: MOST,
        })
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// A connection that broke, no answer in time, an answer that is too large.
    pub fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let Http {
            runtime,
            sender,
            server,
            most,
        } = self;
        runtime.block_on(async {
            let answer = async {
                sender.ready().await?;
                let answer = sender.send_request(request).await?;
                let status = answer.status();
                let body = Limited::new(answer.into_body(), *most).collect().await;
                let body = body.map_err(|e| anyhow!("the answer broke off: {e}"))?;
                anyhow::Ok((status, body.to_bytes()))
            };
            match timeout(within, answer).await {
                Ok(done) => done.with_context(|| format!("the connection to {server} broke")),
                Err(_) => Err(anyhow!(
                    "{server} does not answer within {} s",
                    within.as_secs()
                )),
            }
        })
    }
}
