//! What the kind `page` notes of every load of a page, whose address is the subject.

use super::Noted;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum PageNote {
    /// What loaded them.
    Browser { product: String },
    /// One load, with nothing cached.
    Load(PageLoad),
    /// An iteration ended before all of its loads were made.
    CutShort { iteration: u32, why: String },
}

impl Noted for PageNote {
    const KIND: &'static str = "page";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// From 1.
    pub iteration: u32,
    /// Within the iteration and of this address, from 1.
    pub number: u32,
    /// Whether our own load filled the line meanwhile.
    pub loaded: bool,
    /// When the browser was sent there, UNIX ns.
    pub began_ns: i64,
    /// Until the outcome was known.
    pub ended_ns: i64,
    pub end: PageEnd,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum PageEnd {
    Loaded(Loaded),
    /// The address given leads elsewhere; null where a script or the page itself did, and not a status of HTTP.
    Redirected {
        to: String,
        status: Option<u16>,
    },
    TimedOut,
    Failed {
        why: String,
    },
}

/// A page that has loaded. Times are those of the browser, from the moment that it was sent there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Until all of it was there and its own handlers had run (Navigation Timing's `loadEventEnd`), ms.
    pub load_ms: f64,
    /// Until something was drawn, ms; null where nothing was by then.
    pub paint_ms: Option<f64>,
    /// Until the first byte of the page itself, ms.
    pub first_byte_ms: f64,
    pub requests: u32,
    /// Of those, failed or answered by 400 and above.
    pub failed_requests: u32,
    /// Came out of a cache: nothing should, with nothing cached.
    pub cached_requests: u32,
    /// What came over the network, headers of HTTP and compression included.
    pub bytes: u64,
    pub hosts: u32,
    /// Such as `h2`, each once.
    pub protocols: Vec<String>,
    /// Connections that carried a request.
    pub connections_used: u32,
    /// Connections to the same addresses and ports that came about, used or not; null where the browser's log was cut.
    pub connections_opened: Option<u32>,
    /// Names that were looked up.
    pub lookups: Option<u32>,
    /// The longest lookup, ms; null where there was none.
    pub lookup_ms: Option<f64>,
    /// The transfer that took longest, of those whose parts the browser tells where it does of any.
    pub longest: Option<Transfer>,
}

/// One object's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    pub bytes: u64,
    /// From its first byte to its last.
    pub took_ms: f64,
    /// What came in the first and in the last third of that time; null where the browser does not tell when its parts came.
    pub thirds_bytes: Option<(u64, u64)>,
}
