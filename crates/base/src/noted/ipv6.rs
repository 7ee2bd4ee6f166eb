//! Notes of the experiment `ipv6`. Times are rows of the table `delay`, of the targets that [`target`] names.

use super::Noted;
use crate::record::Direction;
use serde::{Deserialize, Serialize};

/// Returns the name of the target of connections (TCP) or datagrams (UDP) over one IP version.
pub fn target(transport: &str, version: u8) -> String {
    format!("{transport}-v{version}")
}

/// Notes of a run of `ipv6`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum V6Note {
    /// Addresses of one IP version.
    Family {
        version: u8,
        /// Address of the server; null if it has none, with the reason in `why`.
        server: Option<String>,
        /// Local address with a route to the server; null if there is none.
        local: Option<String>,
        why: Option<String>,
    },
    /// Small (unfragmented) and large (fragmented) datagram over IPv6; true if it arrived.
    Fragments {
        direction: Direction,
        bytes: u32,
        small: bool,
        large: bool,
    },
    /// Datagrams with an extension header between IP and UDP.
    Extension {
        /// `hop-by-hop options` or `destination options`.
        header: String,
        /// True if they arrived; null if this host cannot send them.
        arrived: Option<bool>,
    },
    /// Largest packet of this IP version that reached the server unfragmented, and smallest that did not.
    PathMtu {
        #[serde(default = "six")]
        version: u8,
        arrived: Option<u32>,
        lost: Option<u32>,
        /// Path MTU that this host assumes afterwards, bytes.
        believed: Option<u32>,
        /// MTU of this host's interface, bytes.
        interface: Option<u32>,
    },
}

/// IP version in old recordings, which have the path MTU of IPv6 only.
fn six() -> u8 {
    6
}

impl Noted for V6Note {
    const KIND: &'static str = "ipv6";
}
