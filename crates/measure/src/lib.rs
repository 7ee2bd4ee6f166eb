//! Protocol between the two ends of a measurement, as state machines without sockets or clocks. It consists of the wire
//! format, the handshake, the probing session, the reflector, and the control messages for load.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod account;
pub mod applications;
pub mod asker;
pub mod bucket;
pub mod cadence;
pub mod capture;
pub mod clock;
pub mod control;
pub mod dns;
pub mod ends;
pub mod flows;
pub mod guest;
pub mod handshake;
pub mod icmp;
pub mod keys;
pub mod lasting;
pub mod ledger;
pub mod neighbours;
pub mod nl80211;
pub mod quote;
pub mod reflector;
pub mod replay;
pub mod segment;
pub mod session;
pub mod track;
pub mod unsolicited;
pub mod web;
pub mod wire;
