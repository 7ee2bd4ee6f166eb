//! `tailback test --via` against servers of other protocols: behind emulated links whose rates and queues are known, and
//! against servers that lie.

mod draws;
mod hostile;
mod servers;
