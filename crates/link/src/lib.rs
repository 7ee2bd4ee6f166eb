//! One bottleneck: a queue, a rate, a propagation delay and what else happens to packets on a line.
//! Sans-IO: the simulator, the emulator and the gateway run these same bytes.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod qdisc;
