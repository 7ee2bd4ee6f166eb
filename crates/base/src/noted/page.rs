//! Notes of the experiment `page` on every page load; the page's address is the subject.

use super::Noted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Notes of a run of `page`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum PageNote {
    /// Browser that loaded the pages.
    Browser { product: String },
    /// Page load with an empty cache.
    Load(PageLoad),
    /// Iteration that ended before all of its loads were done.
    CutShort { iteration: u32, why: String },
}

impl Noted for PageNote {
    const KIND: &'static str = "page";
}

/// Transport that a browser may use for a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpOver {
    /// The browser chooses.
    #[default]
    Any,
    /// TCP alone: HTTP/2 or HTTP/1.1.
    Tcp,
    /// QUIC from the first packet: HTTP/3.
    Quic,
}

impl HttpOver {
    /// Name of the transport.
    pub fn named(self) -> &'static str {
        match self {
            HttpOver::Any => "any",
            HttpOver::Tcp => "TCP",
            HttpOver::Quic => "QUIC",
        }
    }

    /// True if a page that came over this protocol came over this transport; also if the protocol is unknown.
    pub fn allows(self, protocol: &str) -> bool {
        let quic = protocol.starts_with("h3") || protocol.starts_with("quic");
        match self {
            HttpOver::Any => true,
            HttpOver::Tcp => !quic,
            HttpOver::Quic => quic,
        }
    }
}

/// One load of a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// Number of the iteration, from 1.
    pub iteration: u32,
    /// Number of the load of this address within the iteration, from 1.
    pub number: u32,
    /// True if the experiment's own load filled the link during this page load.
    pub loaded: bool,
    /// Transport that the browser was allowed.
    #[serde(default)]
    pub over: HttpOver,
    /// Start of the navigation, UNIX ns.
    pub began_ns: i64,
    /// Time at which the outcome was known, UNIX ns.
    pub ended_ns: i64,
    /// End of the load.
    pub end: PageEnd,
}

/// Outcome of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum PageEnd {
    Loaded(Box<Loaded>),
    /// Redirect to another address. `status` is null if a script or the page itself redirected, not an HTTP status.
    Redirected {
        to: String,
        status: Option<u16>,
    },
    TimedOut,
    Failed {
        why: String,
    },
}

/// Page that has loaded. Times are the browser's, counted from the start of the navigation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Load time until the page's own handlers had run (Navigation Timing's `loadEventEnd`), ms.
    pub load_ms: f64,
    /// Time to first paint, ms; null if nothing was painted before the load ended.
    pub paint_ms: Option<f64>,
    /// Time to the first byte of the page itself, ms.
    pub first_byte_ms: f64,
    /// Number of requests.
    pub requests: u32,
    /// Requests that failed or had an HTTP status of 400 or above.
    pub failed_requests: u32,
    /// Requests served from a cache: none are expected with an empty cache.
    pub cached_requests: u32,
    /// Bytes received over the network, with HTTP headers, as compressed.
    pub bytes: u64,
    /// Number of hosts that answered.
    pub hosts: u32,
    /// Protocols such as `h2`, each once.
    pub protocols: Vec<String>,
    /// Protocol of the page itself, such as `h3`; empty if unknown.
    #[serde(default)]
    pub main_protocol: String,
    /// Number of answered requests by protocol.
    #[serde(default)]
    pub by_protocol: BTreeMap<String, u32>,
    /// Services that the page's server announces beside this one (`Alt-Svc`, RFC 7838); empty if none.
    #[serde(default)]
    pub alt_svc: String,
    /// Connections that carried a request.
    pub connections_used: u32,
    /// Connections opened to the same addresses and ports, used or not; null if the browser's log was truncated.
    pub connections_opened: Option<u32>,
    /// Number of names looked up.
    pub lookups: Option<u32>,
    /// Longest lookup, ms; null if there was none.
    pub lookup_ms: Option<f64>,
    /// Longest transfer, among those with timings of their parts if the browser gives any.
    pub longest: Option<Transfer>,
}

/// Transfer of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Bytes of the object.
    pub bytes: u64,
    /// Time from the object's first byte to its last, ms.
    pub took_ms: f64,
    /// Bytes in the first and in the last third of that time; null if the browser gives no timings of the parts.
    pub thirds_bytes: Option<(u64, u64)>,
}
