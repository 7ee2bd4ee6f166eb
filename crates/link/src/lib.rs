//! Model of one bottleneck: a queue, a rate, a propagation delay and impairments. Sans-IO: the simulator, the emulator
//! and the gateway run the same code.
//!
//! A [`Link`] is one direction. The caller passes packets with their arrival times ([`Link::enqueue`]) and polls for
//! packets that have come out ([`Link::poll`]). [`Link::next_wakeup`] returns when to poll again. A [`LinkSpec`]
//! describes both directions in words and units.
//!
//! ```
//! use base::{Bytes, Ecn, FlowId, Packet, PacketId, Time, rng::Streams};
//! use link::{Link, LinkSpec, qdisc::Fates};
//!
//! let spec = LinkSpec::named("adsl").unwrap();
//! let mut up = Link::new(&spec.up.params().unwrap(), &Streams::new(1), "up");
//! let mut fates = Fates::default();
//! let packet = Packet {
//!     id: PacketId(0), flow: FlowId(1), len: Bytes::new(1500), ecn: Ecn::NotEct, dscp: 0, enqueued: Time::ZERO,
//! };
//! up.enqueue(Time::ZERO, packet, &mut fates);
//! // 1500 bytes at 700 kbit/s take 17.142858 ms, then 9.1 ms of propagation.
//! while let Some(now) = up.next_wakeup() {
//!     if let Some(delivery) = up.poll(now, &mut fates) {
//!         assert_eq!(delivery.at, Time::from_nanos(17_142_858 + 9_100_000));
//!     }
//! }
//! ```
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod bucket;
mod drift;
mod express;
pub mod impair;
pub mod lblca;
mod line;
pub mod qdisc;
pub mod rate;
mod rate_table;
mod spec;

pub use base::framing::{self, Framing, FramingSpec};
pub use base::words;
pub use bucket::{PolicerSpec, ShaperSpec, TokenBucket, shaped_rate};
pub use drift::DriftSpec;
pub use express::{Exit, Express};
pub use line::{Delivery, Link, LinkParams, LinkStats, Tally};
pub use rate_table::Step;
pub use spec::{DIRECTION_KEYS, DirectionSpec, Laws, LinkSpec, PRESETS, RateSpec, SpecError, laws};
