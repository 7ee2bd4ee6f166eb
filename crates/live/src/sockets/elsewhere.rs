//! Requests of an experiment beside probes and loads, on systems other than Linux: all are refused, but those that a test can
//! do without.

use super::Setup;
use crate::error::CraftError;
use crate::load::Load;
use base::Duration;
use base::program::{Sending, Train};
use experiment::Stopped;
use experiment::ask::{Answer, Ask};
use experiment::host::{Counted, Fresh, Meanwhile, Passing, Rates};

#[derive(Default)]
pub(super) struct Further;

fn refused(what: &'static str) -> CraftError {
    Stopped::Cannot { what }.into()
}

impl Further {
    /// Counts nothing: the cross traffic stays unknown.
    pub(super) fn count(&mut self, _: Counted, _: &Setup<'_>) -> Result<(), CraftError> {
        Ok(())
    }

    pub(super) fn rates(&self, _: Duration) -> Option<Rates> {
        None
    }

    pub(super) fn interface(&self) -> Option<&str> {
        None
    }

    pub(super) fn ask(
        &mut self,
        _: &Ask,
        _: &mut Setup<'_>,
        _: &[(u32, Load)],
        _: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, CraftError> {
        Err(refused("do this without Linux"))
    }

    /// Opens no fresh connections: what they would tell stays unknown.
    pub(super) fn fresh(&mut self, _: Option<Fresh>, _: &Setup<'_>) -> Result<(), CraftError> {
        Ok(())
    }
}

pub(super) fn train(
    _: &Setup<'_>,
    _: &Sending,
    _: i64,
    _: &mut dyn FnMut(Passing) -> bool,
) -> Result<Vec<Train>, CraftError> {
    Err(refused("send trains without Linux"))
}
