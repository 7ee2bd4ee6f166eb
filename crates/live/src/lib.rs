//! Clock, sockets, namespaces and raw packets. All decisions are in the pure crates; this one tells them the time and
//! carries their bytes.

#![deny(unsafe_code)]

pub mod capture;
pub mod clock;
pub mod collapse;
pub mod craft;
pub mod dns;
pub mod emulate;
mod ends;
pub mod errand;
pub mod host;
pub mod ipv6;
pub mod listeners;
pub mod load;
pub mod middlebox;
pub mod monitor;
pub mod page;
pub mod path;
pub mod pipe;
pub mod privileges;
pub mod probe;
pub mod resolve;
pub mod route;
pub mod serve;
pub mod sniff;
pub mod sockets;
mod sys;
pub mod tcp;
mod ticker;
pub mod timestamp;
pub mod traffic;

pub use sys::signal;
