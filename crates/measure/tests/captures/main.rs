//! Captures from their first byte to what is said of the connections in them.

mod afar;
mod behaviour;
mod copies;
mod ends;
mod hostile;
mod model;
mod packets;
mod reading;
mod repairs;
mod short;
mod tracking;
mod unsolicited;
mod writing;
