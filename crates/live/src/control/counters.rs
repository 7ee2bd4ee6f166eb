//! Counters of one direction at the WAN interface: those of the program, or in a dry run those of the kernel.

use super::ControlError;
use super::hook::{Exempt, Hook, Side};
use super::settings::Settings;
use crate::clock::Clock;
use crate::traffic::Reader;
use control::agent::{Counts, Orders};
use std::io;

/// Size of the Ethernet header, which the kernel counts at the egress and a modem's link need not carry.
const ETHERNET: i64 = 14;

/// Counters, and the hand that obeys orders if there is one.
pub(super) enum Counters {
    Hook(Box<Hook>),
    Kernel {
        reader: Reader,
        side: Side,
        first: Counts,
    },
}

impl Counters {
    /// Attaches the program if `acts`; opens the kernel's counters otherwise.
    pub fn open(settings: &Settings, side: Side, acts: bool) -> Result<Counters, ControlError> {
        let local = |source| ControlError::Local {
            what: "read the interface counters",
            source,
        };
        if acts {
            let exempt = Exempt {
                overhead: adjustment(settings, side),
                small: settings.small,
                dscp: settings.exempt.iter().fold(0, |m, d| m | 1 << (d & 63)),
            };
            return Ok(Counters::Hook(Box::new(Hook::attach(
                &settings.wan,
                side,
                exempt,
            )?)));
        }
        let mut counters = Counters::Kernel {
            reader: Reader::open(&settings.wan).map_err(local)?,
            side,
            first: Counts::default(),
        };
        let now = counters.read().map_err(local)?;
        if let Counters::Kernel { first, .. } = &mut counters {
            *first = now;
        }
        Ok(counters)
    }

    /// Bytes and packets since the start.
    pub fn read(&mut self) -> io::Result<Counts> {
        match self {
            Counters::Hook(hook) => Ok(hook.counts()),
            Counters::Kernel {
                reader,
                side,
                first,
            } => {
                let both = reader.read()?.ok_or_else(|| {
                    io::Error::new(io::ErrorKind::NotFound, "the interface is gone")
                })?;
                let passed = match side {
                    Side::Egress => both.tx,
                    Side::Ingress => both.rx,
                };
                Ok(Counts {
                    bytes: passed.bytes.saturating_sub(first.bytes),
                    packets: passed.packets.saturating_sub(first.packets),
                    ..Counts::default()
                })
            }
        }
    }

    /// Gives orders to the program, if there is one.
    pub fn order(&mut self, orders: &Orders, clock: Clock) {
        if let Counters::Hook(hook) = self {
            hook.order(orders, clock);
        }
    }
}

/// Bytes that the link adds to each packet beyond what the kernel counts at that side of the interface.
pub(super) fn adjustment(settings: &Settings, side: Side) -> i64 {
    match side {
        Side::Egress => settings.overhead - header(&settings.wan),
        // The kernel counts IP packets there.
        Side::Ingress => settings.overhead,
    }
}

/// Bytes of the link-layer header that the kernel counts at this interface: none on those that carry IP alone.
fn header(interface: &str) -> i64 {
    let ethernet = nix::ifaddrs::getifaddrs().is_ok_and(|mut all| {
        all.any(|a| {
            let link = a.address.as_ref().and_then(|a| a.as_link_addr().copied());
            a.interface_name == interface && link.is_some_and(|l| l.hatype() == libc::ARPHRD_ETHER)
        })
    });
    if ethernet { ETHERNET } else { 0 }
}
