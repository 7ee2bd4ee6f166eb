//! No allocation per packet once a network is warm. Counting what is allocated takes an allocator of one's own, which
//! is why this test, and nothing else of the room, has unsafe code; it stands alone so that no other test's
//! allocations are counted.

use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Time};
use link::LinkParams;
use link::qdisc::registry::QDISCS;
use link::rate::Rate;
use sim::network::{Blind, Network};
use sim::tcp::Settings;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn line(rate: u64, delay_ms: u64, queue: &str) -> LinkParams {
    LinkParams::plain(
        Rate::fixed(BitsPerSec::from_mbps(rate)).expect("above zero"),
        Duration::from_millis(delay_ms),
        queue.parse().expect("a discipline"),
    )
}

/// Ten flows over a queue whose losses they repair.
fn dumbbell(queue: &str, controller: &str) -> (Network, usize) {
    let streams = Streams::new(1);
    let mut network = Network::default();
    let there = network.add_link(&line(20, 20, queue), &streams, "there");
    let back = network.add_link(&line(20, 20, "fifo:packets=100000"), &streams, "back");
    network.watch(there);
    let settings = Settings {
        mss: Bytes::new(1000),
        controller: Arc::new(controller.parse().expect("a controller")),
        ..Settings::default()
    };
    for flow in 0..10 {
        let mut access = |name: &str| {
            let access = line(1000, 5, "fifo:packets=100000");
            network.add_link(&access, &streams, &format!("{flow}/{name}"))
        };
        let [a, b, c, d] = ["to", "from", "to far", "from far"].map(&mut access);
        let start = Time::from_millis(100 * flow);
        network.connect(
            &settings,
            &[a, there, b],
            &[c, back, d],
            start,
            u64::MAX,
            &streams,
        );
    }
    (network, there)
}

/// Room grows when more is under way than ever before, and a few hundred packets that gather are sorted together with
/// room of their own: together less than once in so many packets.
const RARELY: u64 = 1000;

#[test]
fn a_warm_network_allocates_nothing_for_a_packet() {
    let cubic = QDISCS.iter().map(|spec| (spec.entry.name, "cubic"));
    for (queue, controller) in cubic.chain([("codel", "bbr3")]) {
        let (mut network, there) = dumbbell(queue, controller);
        network.run_until(Time::from_secs(60), &mut Blind);
        let warm = network.link_stats(there).delivered.packets;
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        network.run_until(Time::from_secs(90), &mut Blind);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let packets = network.link_stats(there).delivered.packets - warm;
        assert!(packets > 10_000, "{queue}, {controller}: {packets} packets");
        assert!(
            allocations * RARELY < packets,
            "{queue}, {controller}: {allocations} allocations for {packets} packets"
        );
    }
}
