//! All cells of the page: a file for kinds that are alike.

mod boxes;
mod checks;
pub mod loads;
mod marks;
mod methods;
mod names;
mod pages;
mod quic;
mod trains;

use crate::accuracy::cell::Cell;

/// In virtual time, then with the kernel's own packets.
pub fn all() -> [Vec<Cell>; 2] {
    let kernel = [
        trains::kernel(),
        methods::kernel(),
        loads::all(),
        pages::all(),
        names::all(),
        boxes::all(),
        checks::all(),
        marks::all(),
        quic::all(),
    ];
    let bench = [trains::bench(), methods::bench()];
    [
        bench.into_iter().flatten().collect(),
        kernel.into_iter().flatten().collect(),
    ]
}
