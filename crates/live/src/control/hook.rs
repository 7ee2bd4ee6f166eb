//! Program at the egress of the WAN interface, and at its ingress if downloads are controlled: TCX, Linux 6.6 and later.
//!
//! The program is `egress.c`. It counts what passes, and marks or drops what it is ordered to. Its link belongs to this
//! process: the kernel removes it when the process ends, however it ends.

use super::ControlError;
use crate::clock::Clock;
use crate::sys::words::Words;
use aya::maps::{Array, Map};
use aya::programs::tc::{TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier};
use aya::sys::SyscallError;
use aya::{Ebpf, EbpfLoader};
use base::Bytes;
use control::agent::{Counts, Orders};
use std::os::fd::AsFd;

/// Object file of `egress.c`, built by `make egress`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("egress.o");
/// Name of the program, as `bpftool net` shows it.
pub const PROGRAM: &str = "tailback_egress";

/// Side of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Packets that the host sends.
    Egress,
    /// Packets that the host receives.
    Ingress,
}

impl Side {
    fn tcx(self) -> TcAttachType {
        match self {
            Side::Egress => TcAttachType::Egress,
            Side::Ingress => TcAttachType::Ingress,
        }
    }
}

/// Settings of the program, fixed while it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exempt {
    /// Bytes that the link adds to each packet beyond what the kernel counts at this interface; may be negative.
    pub overhead: i64,
    /// Packets of at most this size are never signalled.
    pub small: Bytes,
    /// Bit n is set if packets of DSCP n are never signalled.
    pub dscp: u64,
}

/// Words of `struct orders` and of `struct counters`.
const ORDERS: usize = 6;
const COUNTERS: usize = 6;

/// Words of these orders.
fn words(orders: &Orders, clock: Clock) -> [u64; ORDERS] {
    let (limit, rate) = orders.limit().unwrap_or_default();
    [
        clock.mono_of(orders.at).max(0).cast_unsigned(),
        limit,
        rate,
        orders.room.is_some().into(),
        orders.signals,
        orders.mark.into(),
    ]
}

/// True if these words let all packets pass when so many signals have been taken.
fn is_idle([_, _, _, limited, signals, _]: &[u64; ORDERS], signalled: u64) -> bool {
    *limited == 0 && *signals <= signalled
}

/// Attached program; dropping it detaches it.
pub struct Hook {
    orders: Words,
    slot: Words,
    counters: Words,
    /// Slot of the orders that bind.
    bound: u64,
    /// Words of the last orders.
    told: [u64; ORDERS],
    /// Signals that packets have taken.
    signalled: u64,
    _ebpf: Ebpf,
}

impl Hook {
    /// Loads the program and attaches it to that side of the interface, behind the programs that are there.
    ///
    /// # Errors
    /// No permission, no such interface, or a kernel that refuses the program.
    pub fn attach(interface: &str, side: Side, exempt: Exempt) -> Result<Hook, ControlError> {
        let refused = |what: &'static str| {
            move |e: &(dyn std::error::Error + 'static)| ControlError::of_kernel(what, e)
        };
        // Without the kernel's own types, which the program does not need: they take 14 MB and 0.1 s to read.
        let mut ebpf = EbpfLoader::new()
            .btf(None)
            .load(OBJECT)
            .map_err(|e| refused("load the eBPF program")(&e))?;
        let shared = |name, words| match ebpf.map(name) {
            Some(Map::Array(array)) => Words::map(array.fd().as_fd(), words)
                .map_err(|e| refused("map the arrays of the eBPF program")(&e)),
            _ => Err(ControlError::Object { name }),
        };
        let orders = shared("ORDERS", 2 * ORDERS)?;
        let slot = shared("SLOT", 1)?;
        let counters = shared("COUNTERS", COUNTERS)?;
        let words = [
            exempt.overhead.cast_unsigned(),
            exempt.small.get(),
            exempt.dscp,
        ];
        let array = |e: aya::maps::MapError| refused("open the maps of the eBPF program")(&e);
        let name = "SETTINGS";
        let settings = ebpf.map_mut(name).ok_or(ControlError::Object { name })?;
        let mut settings: Array<_, [u64; 3]> = settings.try_into().map_err(array)?;
        settings.set(0, words, 0).map_err(array)?;
        let program: &mut SchedClassifier = ebpf
            .program_mut(PROGRAM)
            .and_then(|p| p.try_into().ok())
            .ok_or(ControlError::Object { name: PROGRAM })?;
        program
            .load()
            .map_err(|e| refused("load the eBPF program")(&e))?;
        let order = TcAttachOptions::TcxOrder(LinkOrder::default());
        program
            .attach_with_options(interface, side.tcx(), order)
            .map_err(|e| refused("attach the eBPF program")(&e))?;
        Ok(Hook {
            orders,
            slot,
            counters,
            bound: 0,
            told: [0; ORDERS],
            signalled: 0,
            _ebpf: ebpf,
        })
    }

    /// Counts so far.
    pub fn counts(&mut self) -> Counts {
        let words = self.counters.read::<COUNTERS>(0);
        let [packets, bytes, signalled, marks, drops, capped] = words;
        self.signalled = signalled;
        Counts {
            packets,
            bytes,
            marks,
            drops: drops + capped,
            signalled,
        }
    }

    /// Gives orders. They bind for a quarter of a second, unless others follow. Orders to let all pass need no renewal.
    pub fn order(&mut self, orders: &Orders, clock: Clock) {
        let told = words(orders, clock);
        if is_idle(&told, self.signalled) && is_idle(&self.told, self.signalled) {
            return;
        }
        let free = 1 - self.bound;
        self.orders.write(free as usize * ORDERS, &told);
        self.slot.write(0, &[free]);
        (self.bound, self.told) = (free, told);
    }
}

/// Programs at that side of the interface, in their order.
///
/// # Errors
/// No permission, no such interface, or a kernel without TCX.
pub fn programs(interface: &str, side: Side) -> Result<Vec<String>, ControlError> {
    match SchedClassifier::query_tcx(interface, side.tcx()) {
        Ok((_, programs)) => Ok(programs
            .iter()
            .map(|p| p.name_as_str().unwrap_or("without a name").to_owned())
            .collect()),
        Err(ProgramError::SyscallError(SyscallError { io_error, .. }))
            if io_error.raw_os_error() == Some(libc::ENOENT) =>
        {
            // Nothing was ever attached there.
            Ok(Vec::new())
        }
        Err(e) => Err(ControlError::of_kernel("ask for TCX programs", &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Time;
    use control::upload::Room;
    use sha2::{Digest, Sha256};

    /// Source and object as they were built together by `make egress`.
    const BUILT: &str = include_str!("egress.sha256");

    #[test]
    fn the_object_was_built_from_the_source() {
        let sum = |bytes: &[u8], name| {
            let hex: String = Sha256::digest(bytes)
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            format!("{hex}  {name}\n")
        };
        let source = sum(include_bytes!("egress.c"), "egress.c");
        let object = sum(OBJECT, "egress.o");
        assert_eq!(
            BUILT,
            source + &object,
            "run `make egress` and commit its files"
        );
    }

    #[test]
    fn a_limit_below_zero_lets_nothing_pass() {
        let orders = Orders {
            at: Time::ZERO,
            passed: 1000,
            room: Some(Room {
                bytes: -5000.0,
                rate: 1.25e6,
            }),
            signals: 3,
            mark: true,
        };
        let told = words(&orders, Clock::start());
        assert_eq!(told[1..], [0, 1_250_000, 1, 3, 1]);
        let free = Orders {
            room: None,
            mark: false,
            ..orders
        };
        assert_eq!(words(&free, Clock::start())[1..], [0, 0, 0, 3, 0]);
        assert!(!is_idle(&told, 3), "it limits");
        let free = words(&free, Clock::start());
        assert!(!is_idle(&free, 2), "a signal waits for a packet");
        assert!(is_idle(&free, 3));
    }
}
