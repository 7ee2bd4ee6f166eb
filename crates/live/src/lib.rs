//! The only room with a clock, sockets, namespaces and raw packets. Everything that decides lives in
//! the pure rooms; this one tells them the time and carries their bytes.

pub mod capture;
pub mod clock;
pub mod craft;
pub mod emulate;
mod ends;
pub mod host;
pub mod listeners;
pub mod load;
pub mod monitor;
mod page;
pub mod path;
pub mod pipe;
pub mod privileges;
pub mod probe;
pub mod resolve;
mod ring;
pub mod serve;
pub mod signal;
pub mod sniff;
pub mod sockets;
pub mod tally;
mod tcp;
mod ticker;
pub mod timestamp;
pub mod traffic;
mod udp;
