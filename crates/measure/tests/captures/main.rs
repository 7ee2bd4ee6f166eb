//! Captures from their first byte to what is said of the connections in them.

mod behaviour;
mod ends;
mod hostile;
mod packets;
mod reading;
mod short;
mod tracking;
mod unsolicited;
mod writing;
