//! Observer of single packets and of connections as they end: a plot, a recording.

use super::act::Act;
use super::connection::Connection;

/// Callbacks in the order of the capture.
pub trait Watch {
    /// Announces the direction of the next events: first the data that the packet's sender sent (also for an RST, which
    /// has no event); then its acknowledgements. `direction` 0 is from the connection's `a` to its `b`.
    fn turn(&mut self, _connection: u32, _direction: usize) {}
    /// Takes an event of the connection and direction that `turn` announced.
    fn act(&mut self, act: Act);
    /// Announces a connection that is over, or was silent for too long to be kept open.
    fn over(&mut self, _connection: &Connection) {}
}

impl Watch for () {
    #[inline]
    fn act(&mut self, _: Act) {}
}
