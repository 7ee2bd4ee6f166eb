//! Independent work on two cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Results of all numbers, in their order.
pub fn each<T: Send>(numbers: &[u64], of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(number) = numbers.get(at) else {
                        break;
                    };
                    let result = of(*number);
                    done.lock().expect("no holder panicked").push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no holder panicked");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
