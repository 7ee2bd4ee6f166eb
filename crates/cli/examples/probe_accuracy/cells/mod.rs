//! All cells of the page: a file for kinds that are alike.

mod boxes;
mod checks;
mod loads;
mod names;
mod pages;
mod trains;

use crate::cell::Cell;

/// In virtual time, then with the kernel's own packets.
pub fn all() -> [Vec<Cell>; 2] {
    let kernel = [
        trains::kernel(),
        loads::all(),
        pages::all(),
        names::all(),
        boxes::all(),
        checks::all(),
    ];
    [trains::bench(), kernel.into_iter().flatten().collect()]
}
