//! Responses of the site, with their headers.

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Frame, SizeHint};
use hyper::http::{StatusCode, header};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Body of a response.
pub(super) enum Body {
    Whole(Option<Bytes>),
    /// Download, without end.
    Flow(mpsc::Receiver<Bytes>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take()),
            Body::Flow(chunks) => chunks.poll_recv(cx),
        };
        data.map(|d| d.map(|d| Ok(Frame::data(d))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Body::Flow(_) => SizeHint::default(),
        }
    }
}

/// Policy of the site: its own scripts and WebAssembly, its own connections, and the styles of the report.
const POLICY: &str = "default-src 'none'; connect-src 'self' https: wss: ws:; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn with_headers(status: StatusCode, kind: &str, body: Body) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, kind)
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::REFERRER_POLICY, "no-referrer")
        // With these two, a browser's clock has steps of 5 µs instead of 100 µs.
        .header("Cross-Origin-Opener-Policy", "same-origin")
        .header("Cross-Origin-Embedder-Policy", "require-corp");
    response.body(body).expect("the headers are plain text")
}

pub(super) fn whole(status: StatusCode, kind: &str, body: Bytes) -> Response<Body> {
    with_headers(status, kind, Body::Whole(Some(body)))
}

pub(super) fn stream(body: Body) -> Response<Body> {
    with_headers(StatusCode::OK, "application/octet-stream", body)
}

pub(super) fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let body = Bytes::copy_from_slice(text.as_bytes());
    whole(status, "text/plain; charset=utf-8", body)
}
