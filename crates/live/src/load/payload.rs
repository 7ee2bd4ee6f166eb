//! Data of a flow, and the reasons for its end.

use super::kernel::random_bytes;
use base::rng::Streams;
use std::io;
use std::sync::Arc;

/// Data of one call: large enough for the kernel to build full segments, small enough that a sample is not late on a
/// slow machine.
const CHUNK: usize = 128 << 10;

/// Bytes that no link can compress: random, and sent from ever new offsets, so that a repetition is megabytes away from
/// the original.
#[derive(Clone)]
pub struct Payload(Arc<[u8]>);

impl Payload {
    const LEN: usize = 4 << 20;

    pub fn new() -> Payload {
        use rand::Rng as _;
        let mut rng = Streams::new(u64::from_ne_bytes(random_bytes())).stream("load/payload");
        let mut bytes = vec![0; Payload::LEN];
        rng.fill_bytes(&mut bytes);
        Payload(bytes.into())
    }

    pub fn chunk(&self, at: usize) -> &[u8] {
        // Steps of an odd size over a span that they do not divide.
        &self.0[at % (Payload::LEN - CHUNK)..][..CHUNK]
    }
}

/// Reason why a flow stopped.
#[derive(Debug)]
pub enum End {
    /// The caller stopped it.
    Stopped,
    TimeUp,
    /// The far end closed or reset the connection.
    PeerClosed,
    /// Stalled: nothing moved within the caller's patience.
    Stalled,
    /// The receiver of the samples stopped it.
    Enough,
    Failed(io::Error),
}
