//! Functions that the page's scripts call. Texts and bytes pass through one buffer: a script writes what it hands over to
//! the address that [`place`] gives, and reads an answer of the returned length at that of [`answer`].
#![allow(unsafe_code)]

use crate::probes::{Open, Probes, time};
use crate::test::{Setup, Test};
use std::cell::RefCell;

#[derive(Default)]
struct State {
    given: Vec<u8>,
    answer: Vec<u8>,
    probes: Option<Probes>,
    test: Option<Test>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Longest text that a script hands over.
const MOST: usize = 64 << 20;
/// Result of a call that failed: the answer says why.
const FAILED: i32 = -1;

impl State {
    fn text(&self, len: usize) -> &str {
        std::str::from_utf8(self.given.get(..len).unwrap_or_default()).unwrap_or_default()
    }

    fn says(&mut self, answer: impl Into<Vec<u8>>) -> i32 {
        self.answer = answer.into();
        i32::try_from(self.answer.len()).unwrap_or(FAILED)
    }

    fn fails(&mut self, why: impl Into<String>) -> i32 {
        let why: String = why.into();
        self.says(why);
        FAILED
    }
}

fn with<T>(act: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(act)
}

/// Calls `act` with the probes and the bytes that were handed over.
fn probes(len: usize, act: impl FnOnce(&mut Probes, &[u8]) -> Option<Vec<u8>>) -> i32 {
    with(|s| {
        let given = std::mem::take(&mut s.given);
        let bytes = given.get(..len).unwrap_or_default();
        let answer = s.probes.as_mut().and_then(|p| act(p, bytes));
        s.given = given;
        s.says(answer.unwrap_or_default())
    })
}

fn test(len: usize, act: impl FnOnce(&mut Test, &str) -> Result<String, String>) -> i32 {
    with(|s| {
        let given = std::mem::take(&mut s.given);
        let text = std::str::from_utf8(given.get(..len).unwrap_or_default()).unwrap_or_default();
        let answer = match s.test.as_mut() {
            Some(test) => act(test, text),
            None => Err("no test has begun".into()),
        };
        s.given = given;
        match answer {
            Ok(text) => s.says(text),
            Err(why) => s.fails(why),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn place(len: usize) -> *mut u8 {
    with(|s| {
        s.given.resize(len.min(MOST), 0);
        s.given.as_mut_ptr()
    })
}

#[unsafe(no_mangle)]
extern "C" fn answer() -> *const u8 {
    with(|s| s.answer.as_ptr())
}

/// Length of the latest answer.
#[unsafe(no_mangle)]
extern "C" fn answered() -> i32 {
    with(|s| i32::try_from(s.answer.len()).unwrap_or(0))
}

#[unsafe(no_mangle)]
extern "C" fn probe_open(now: f64, len: usize) -> i32 {
    with(|s| match serde_json::from_str::<Open>(s.text(len)) {
        Ok(open) => {
            s.probes = Some(Probes::new(time(now), open));
            0
        }
        Err(e) => s.fails(e.to_string()),
    })
}

#[unsafe(no_mangle)]
extern "C" fn probe_state() -> i32 {
    with(|s| match s.probes.as_ref().map(Probes::is_open) {
        Some(Ok(open)) => i32::from(open),
        Some(Err(why)) => {
            let why = why.to_owned();
            s.fails(why)
        }
        None => 0,
    })
}

#[unsafe(no_mangle)]
extern "C" fn probe_wake(now: f64) -> i32 {
    probes(0, |p, _| p.wake(time(now)))
}

#[unsafe(no_mangle)]
extern "C" fn probe_sent(before: f64, after: f64) {
    probes(0, |p, _| {
        p.sent(time(before), time(after));
        None
    });
}

#[unsafe(no_mangle)]
extern "C" fn probe_heard(now: f64, len: usize) -> i32 {
    probes(len, |p, bytes| {
        p.heard(time(now), bytes).map(String::into_bytes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn probe_next() -> f64 {
    let next = with(|s| s.probes.as_ref().and_then(Probes::next));
    next.map_or(-1.0, |t| t.as_nanos() as f64 / 1e6)
}

#[unsafe(no_mangle)]
extern "C" fn probe_interval(ms: f64) {
    probes(0, |p, _| {
        p.set_interval(ms);
        None
    });
}

#[unsafe(no_mangle)]
extern "C" fn probe_rows() -> i32 {
    probes(0, |p, _| Some(p.rows().into_bytes()))
}

#[unsafe(no_mangle)]
extern "C" fn probe_close() -> i32 {
    probes(0, |p, _| p.close())
}

#[unsafe(no_mangle)]
extern "C" fn turn(ms: f64) -> i32 {
    let lasts = base::Duration::from_nanos((ms.max(0.0) * 1e6) as u64);
    with(|s| s.says(measure::web::FromPage::Turn { lasts }.encode()))
}

#[unsafe(no_mangle)]
extern "C" fn over() -> i32 {
    with(|s| s.says(measure::web::FromPage::Over.encode()))
}

#[unsafe(no_mangle)]
extern "C" fn test_open(now: f64, len: usize) -> i32 {
    with(|s| match serde_json::from_str::<Setup>(s.text(len)) {
        Ok(setup) => {
            s.test = Some(Test::new(time(now), setup));
            0
        }
        Err(e) => s.fails(e.to_string()),
    })
}

#[unsafe(no_mangle)]
extern "C" fn test_rows(now: f64, len: usize) -> i32 {
    test(len, |t, text| {
        t.rows(time(now), text).map(|()| String::new())
    })
}

#[unsafe(no_mangle)]
extern "C" fn test_received(now: f64, flow: i32, bytes: f64) {
    test(0, |t, _| {
        t.received(time(now), i64::from(flow), bytes.max(0.0) as u64);
        Ok(String::new())
    });
}

#[unsafe(no_mangle)]
extern "C" fn test_ended(now: f64, flow: i32, len: usize) {
    test(len, |t, why| {
        t.ended(time(now), i64::from(flow), why);
        Ok(String::new())
    });
}

#[unsafe(no_mangle)]
extern "C" fn test_doubt(now: f64, len: usize) {
    test(len, |t, why| {
        t.doubt(time(now), why);
        Ok(String::new())
    });
}

#[unsafe(no_mangle)]
extern "C" fn test_stop(len: usize) {
    test(len, |t, why| {
        t.stop(why);
        Ok(String::new())
    });
}

#[unsafe(no_mangle)]
extern "C" fn test_step(now: f64) -> i32 {
    test(0, |t, _| {
        let orders = t.step(time(now));
        serde_json::to_string(&orders).map_err(|e| e.to_string())
    })
}

#[unsafe(no_mangle)]
extern "C" fn test_report(now: f64, complete: i32) -> i32 {
    test(0, |t, _| t.report(time(now), complete != 0))
}

#[unsafe(no_mangle)]
extern "C" fn test_saved() -> i32 {
    test(0, |t, _| Ok(t.saved()))
}
