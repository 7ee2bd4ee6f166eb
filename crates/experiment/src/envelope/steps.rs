//! Steps: the next sending, given all trains so far.

use super::{Params, parts};
use base::program::{Sending, Train};

pub(super) fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    parts(params).iter().find_map(|part| part.next(trains))
}
