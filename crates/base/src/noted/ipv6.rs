//! What the kind `ipv6` notes. Times are rows of the table `delay`, of the targets that [`target`] names.

use super::Noted;
use crate::record::Direction;
use serde::{Deserialize, Serialize};

/// Name of the target of connections (TCP) or datagrams (UDP) over a version of IP.
pub fn target(transport: &str, version: u8) -> String {
    format!("{transport}-v{version}")
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum V6Note {
    /// What there is of a version of IP.
    Family {
        version: u8,
        /// Where the server listens; null where it does not, and then `why` says why.
        server: Option<String>,
        /// The address here that leads there; null where none does.
        local: Option<String>,
        why: Option<String>,
    },
    /// Whole datagrams that do not fit into one packet, over IPv6.
    Fragments {
        direction: Direction,
        bytes: u32,
        small: bool,
        large: bool,
    },
    /// Datagrams with a header between those of IP and UDP.
    Extension {
        /// `hop-by-hop options` or `destination options`.
        header: String,
        /// Null where this host does not let us send one.
        arrived: Option<bool>,
    },
    /// The largest packet of this version that arrived at the server uncut, and the least that did not.
    PathMtu {
        #[serde(default = "six")]
        version: u8,
        arrived: Option<u32>,
        lost: Option<u32>,
        /// What this host believes afterwards.
        believed: Option<u32>,
        /// What its own interface takes.
        interface: Option<u32>,
    },
}

/// Earlier recordings have the path of IPv6 alone.
fn six() -> u8 {
    6
}

impl Noted for V6Note {
    const KIND: &'static str = "ipv6";
}
