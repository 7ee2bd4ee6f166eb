//! Clock, sockets, namespaces and raw packets. All decisions are in the pure crates; this one tells them the time and
//! carries their bytes.

#![deny(unsafe_code)]

pub mod capture;
pub mod clock;
pub mod control;
pub mod craft;
pub mod emulate;
mod ends;
pub mod host;
pub mod iperf3;
pub mod listeners;
pub mod load;
pub mod monitor;
pub mod neighbours;
pub mod notify;
pub mod outlet;
mod page;
pub mod path;
pub mod pipe;
pub mod portal;
pub mod printed;
pub mod privileges;
pub mod probe;
mod quic;
mod quotes;
pub mod resolve;
pub mod route;
mod segments;
pub mod serve;
pub mod sniff;
pub mod sockets;
mod sys;
pub mod tally;
mod tcp;
mod ticker;
pub mod timestamp;
pub mod traffic;
pub mod trust;
pub mod via;
pub mod web;
pub mod wifi;

pub use sys::exec::interrupted_with_parent;
pub use sys::signal;
