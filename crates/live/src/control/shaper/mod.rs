//! Shaper whose rate follows the link: an HTB, TBF or CAKE that is there, changed in place.
//!
//! **Ownership.** One run holds a shaper. Its guard, a process of its own, has the first rates before the first change,
//! and restores them when the run ends, however it ends. A rate that somebody else sets ends the run, and stays.

mod tc;

use super::ControlError;
use super::desk::Desk;
use super::settings::Settings;
use crate::sys::guard::Guard;
use base::Time;
use control::agent::Steers;
use control::passed::Passed;
use control::shape::{Shape, Shaper};
use control::upload::Decision;
use std::io;
use tc::{ACKNOWLEDGED, Found, Kernel, Part};

/// Difference of a rate from the one that was set that rounding explains, bytes per second.
const ROUNDING: f64 = 16.0;

/// Shaper of one direction under control; dropping it restores its rate.
pub(super) struct Shaping {
    device: String,
    kernel: Kernel,
    parts: Vec<Part>,
    /// Rate that it had, and the one it has, bytes per second.
    first: f64,
    set: f64,
    /// Bytes that have left the shaper.
    pub(super) passed: Passed,
    law: Shaper,
    /// None in a dry run.
    guard: Option<Guard>,
    _held: Desk,
}

impl Shaping {
    /// Shaper of a run, if it has one for that direction.
    ///
    /// # Errors
    /// Errors of [`Shaping::open`].
    pub(super) fn of(
        device: Option<&str>,
        settings: &Settings,
        now: Time,
    ) -> Result<Option<Shaping>, ControlError> {
        let open = |device| Shaping::open(device, settings.shape, settings.apply, now);
        device.map(open).transpose()
    }

    /// Takes the shaper of `device`; it keeps its rate for now.
    ///
    /// # Errors
    /// No such interface, no shaper that can be changed, another run that holds it, or no permission.
    fn open(
        device: &str,
        settings: Shape,
        apply: bool,
        now: Time,
    ) -> Result<Shaping, ControlError> {
        super::check_interface(device)?;
        let refused = |why: String| ControlError::Shaper {
            device: device.to_owned(),
            why,
        };
        let told = |e: io::Error| match e.raw_os_error() {
            Some(libc::EPERM) => ControlError::NotAllowed {
                what: "change a shaper",
                source: e,
            },
            _ => refused(e.to_string()),
        };
        let held = Desk::open(&format!("shaper-{device}"))
            .map_err(|_| refused("another `tailback control run` holds it".into()))?;
        let kernel = Kernel::open().map_err(told)?;
        let Found { parts, .. } = kernel.find(device).map_err(told)?;
        let first = parts.first().map_or(0.0, Part::rate);
        if first < 1.0 {
            return Err(refused("the kernel does not tell its rate".into()));
        }
        let mut guard = None;
        if apply {
            let restore: Vec<Vec<u8>> = parts.iter().map(|p| p.message(1.0, 0)).collect();
            let socket = Kernel::open().and_then(|k| k.duplicate()).map_err(told)?;
            guard = Some(Guard::start(&socket, &restore).map_err(told)?);
        }
        let shaping = Shaping {
            device: device.to_owned(),
            kernel,
            parts,
            first,
            set: first,
            passed: Passed::default(),
            law: Shaper::new(settings, first, now, 0),
            guard,
            _held: held,
        };
        // The rate that it has: the kernel says now if it may not be changed.
        shaping.tell(1.0).map_err(told)?;
        Ok(shaping)
    }

    /// Rate in use, bit/s.
    pub(super) fn rate_bps(&self) -> f64 {
        self.law.rate() * 8.0
    }

    /// Follows a decision: sets the rate that the law asks for, if it changes.
    pub(super) fn follow(
        &mut self,
        decision: &Decision,
        controller: &impl Steers,
        passed: u64,
    ) -> io::Result<()> {
        let rate = self.law.update(decision, controller.path(), passed);
        if let Some(rate) = rate
            && self.guard.is_some()
        {
            self.tell(rate / self.first)?;
            self.set = rate;
        }
        Ok(())
    }

    fn tell(&self, share: f64) -> io::Result<()> {
        if self.guard.is_none() {
            return Ok(());
        }
        for part in &self.parts {
            self.kernel.tell(&part.message(share, ACKNOWLEDGED))?;
        }
        Ok(())
    }

    /// Signs of life to the guard, and the check that the rate is still ours. Call it once a second. Returns the bytes that
    /// have passed the shaper.
    pub(super) fn each_second(&mut self) -> io::Result<u64> {
        let found = self.kernel.find(&self.device)?;
        let rate = found.parts.first().map_or(0.0, Part::rate);
        let device = &self.device;
        if let Some(guard) = &mut self.guard {
            if (rate - self.set).abs() > ROUNDING {
                guard.dismiss();
                return Err(io::Error::other(format!(
                    "another program set the rate of {device} to {:.0} bit/s, which stays",
                    rate * 8.0
                )));
            }
            guard.live().map_err(|_| {
                io::Error::other(format!(
                    "the guard of {device} has restored its rate, because this run hung, or was killed"
                ))
            })?;
        }
        Ok(found.passed)
    }
}
