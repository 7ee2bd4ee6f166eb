//! Clock, sockets, namespaces and raw packets. All decisions are in the pure crates; this one tells them the time and
//! carries their bytes.

#![deny(unsafe_code)]

pub mod capture;
pub mod clock;
#[cfg(target_os = "linux")]
pub mod control;
#[cfg(target_os = "linux")]
pub mod craft;
#[cfg(target_os = "linux")]
pub mod door;
#[cfg(target_os = "linux")]
pub mod emulate;
#[cfg(target_os = "linux")]
mod ends;
mod error;
pub mod host;
#[cfg(target_os = "linux")]
pub mod iperf3;
#[cfg(target_os = "linux")]
pub mod listeners;
pub mod load;
#[cfg(target_os = "linux")]
pub mod monitor;
#[cfg(target_os = "linux")]
pub mod neighbours;
#[cfg(target_os = "linux")]
pub mod notify;
#[cfg(target_os = "linux")]
pub mod outlet;
#[cfg(not(target_os = "linux"))]
#[path = "no_outlet.rs"]
pub mod outlet;
#[cfg(target_os = "linux")]
mod page;
#[cfg(target_os = "linux")]
pub mod path;
pub mod pipe;
#[cfg(target_os = "linux")]
pub mod portal;
#[cfg(target_os = "linux")]
pub mod printed;
#[cfg(target_os = "linux")]
pub mod privileges;
pub mod probe;
#[cfg(target_os = "linux")]
mod quic;
#[cfg(target_os = "linux")]
mod quotes;
pub mod resolve;
#[cfg(target_os = "linux")]
pub mod route;
#[cfg(target_os = "linux")]
mod segments;
#[cfg(target_os = "linux")]
pub mod serve;
#[cfg(target_os = "linux")]
pub mod sniff;
pub mod sockets;
mod sys;
pub mod tally;
#[cfg(target_os = "linux")]
mod tcp;
mod ticker;
#[cfg(target_os = "linux")]
pub mod timestamp;
#[cfg(target_os = "linux")]
pub mod traffic;
#[cfg(not(target_os = "linux"))]
#[path = "no_traffic.rs"]
pub mod traffic;
#[cfg(target_os = "linux")]
pub mod trust;
#[cfg(target_os = "linux")]
pub mod via;
#[cfg(target_os = "linux")]
mod waiting;
#[cfg(target_os = "linux")]
pub mod web;
#[cfg(target_os = "linux")]
pub mod wifi;

pub use error::CraftError;
#[cfg(target_os = "linux")]
pub use sys::exec::interrupted_with_parent;
pub use sys::signal;
