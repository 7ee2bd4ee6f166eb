//! Load by a second machine, so that the queue of the measuring host itself stays empty (Catalán 2014, section 6.1.1).
//!
//! The second machine runs `tailback load SERVER`, an ordinary client of that server, and takes orders on its standard
//! input: lines of JSON, over ssh(1). It has no port and no key of its own: whoever gives orders may run programs there
//! anyway. The server is named on its command line, and no order can name another. It answers on standard output, and its
//! rows become rows of the measuring host, on that host's clock.

use crate::clock::Clock;
use base::record::{Cell, Row, TableId};
use base::{Bytes, Duration};
use experiment::Host;
use experiment::host::{Ended, Load, Loaded};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Interval at which states of loads are told.
const TICK: std::time::Duration = std::time::Duration::from_millis(50);
/// Longest wait for an answer that needs no waiting for others.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
/// Questions about the clock; the one with the shortest turn counts.
const CLOCK_ASKED: usize = 8;
/// Longest line of the other side.
const LONGEST_LINE: u64 = 1 << 20;
/// Greatest distance of a row's time from the present: rows that are farther off are dropped.
const ROW_WITHIN_NS: i64 = 600_000_000_000;

/// Order to the second machine.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Clock,
    Turn(Duration),
    Load(Load),
    Stop(Option<u32>),
    Collect,
}

/// Line of the second machine.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    /// Its wall clock, UNIX ns.
    Clock(i64),
    /// Another client has the server's uplink.
    Waiting(Duration, String),
    Done,
    Loads(Vec<Loaded>),
    Ended(Vec<Ended>),
    /// Row by the number of its table.
    Row(usize, Vec<Cell>),
    Failed(String),
}

/// Carries out the orders that `input` holds, until it ends.
///
/// # Errors
/// Output that nobody takes.
pub fn lend(
    mut host: impl Host,
    (input, mut out): (impl Read + Send + 'static, impl Write),
    rows: &Receiver<Row>,
    budget: Bytes,
) -> io::Result<()> {
    let closed = Arc::new(AtomicBool::new(false));
    let orders = read_orders(input, closed.clone())?;
    let mut say = |said: &Said| {
        serde_json::to_writer(&mut out, said)?;
        out.write_all(b"\n")?;
        out.flush()
    };
    let mut ended = 0;
    let mut running: Vec<Loaded> = Vec::new();
    loop {
        let order = match orders.recv_timeout(TICK) {
            Ok(Ok(order)) => Some(order),
            Ok(Err(why)) => {
                say(&Said::Failed(why))?;
                None
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if let Some(order) = order {
            let answer = carry_out(&mut host, order, &mut |waiting| {
                say(&waiting).is_ok() && !closed.load(Ordering::Relaxed)
            });
            say(&answer)?;
        }
        for row in rows.try_iter().filter(|r| foreign(r.table())) {
            let mut cells = Vec::new();
            row.put(&mut cells);
            say(&Said::Row(row.table() as usize, cells))?;
        }
        let loads = host.loads();
        let left = |l: &&Loaded| !loads.iter().any(|now| now.number == l.number);
        ended += running
            .iter()
            .filter(left)
            .map(|l| l.bytes.get())
            .sum::<u64>();
        let spent = ended + loads.iter().map(|l| l.bytes.get()).sum::<u64>();
        if spent > budget.get() && !loads.is_empty() {
            host.stop_load(None);
            let why = format!("it has sent the {budget:.3} that its --budget allows");
            say(&Said::Failed(why))?;
        }
        if !loads.is_empty() {
            say(&Said::Loads(loads.clone()))?;
        }
        running = loads;
    }
}

/// True for the tables that a load writes.
fn foreign(table: TableId) -> bool {
    matches!(table, TableId::Flow | TableId::Event)
}

/// Starts a thread that reads orders, and sets `closed` at their end.
fn read_orders(
    input: impl Read + Send + 'static,
    closed: Arc<AtomicBool>,
) -> io::Result<Receiver<Result<Order, String>>> {
    let (tell, orders) = channel();
    std::thread::Builder::new()
        .name("orders".into())
        .spawn(move || {
            let mut input = BufReader::new(input);
            while let Some(line) = read_line(&mut input) {
                let order = serde_json::from_slice(&line).map_err(|e| format!("no order: {e}"));
                if tell.send(order).is_err() {
                    break;
                }
            }
            closed.store(true, Ordering::Relaxed);
        })?;
    Ok(orders)
}

/// Next line; `None` at the end, and after one that is too long.
fn read_line(input: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = input.take(LONGEST_LINE).read_until(b'\n', &mut line);
    (read.is_ok() && line.ends_with(b"\n")).then_some(line)
}

fn carry_out(host: &mut impl Host, order: Order, wait: &mut dyn FnMut(Said) -> bool) -> Said {
    let done = match order {
        Order::Clock => return Said::Clock(host.unix_ns()),
        Order::Collect => return Said::Ended(host.collect()),
        Order::Turn(lasts) => host.turn(lasts, &mut |after, text| wait(Said::Waiting(after, text))),
        Order::Load(load) => host.load(&load),
        Order::Stop(number) => {
            host.stop_load(number);
            Ok(())
        }
    };
    match done {
        Ok(()) => Said::Done,
        Err(e) => Said::Failed(e.to_string()),
    }
}

/// Second machine, as the measuring host sees it. Dropping it ends its loads.
pub struct Lender {
    child: Child,
    orders: ChildStdin,
    said: Receiver<Said>,
    loads: Arc<Mutex<Vec<Loaded>>>,
}

impl Lender {
    /// Starts `ssh HOST tailback load …` with these arguments; its rows go to `rows`.
    ///
    /// # Errors
    /// Failure to start, or no answer.
    pub fn open(
        host: &str,
        arguments: &[String],
        clock: Clock,
        rows: Sender<Row>,
    ) -> Result<Lender, String> {
        let mut command = Command::new("ssh");
        // A key, and no question that nobody sees.
        command.args(["-T", "-o", "BatchMode=yes", "--", host, "tailback", "load"]);
        command.args(arguments);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|e| format!("cannot start ssh: {e}"))?;
        let (orders, out) = match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(out)) => (orders, out),
            _ => return Err("ssh has no input or output".into()),
        };
        let (tell, said) = channel();
        let ahead = Arc::new(Mutex::new(0));
        let loads = Arc::<Mutex<Vec<Loaded>>>::default();
        let taker = Taker {
            tell,
            rows,
            clock,
            ahead: ahead.clone(),
            loads: loads.clone(),
        };
        let thread = std::thread::Builder::new().name("lender".into());
        let thread = thread.spawn(move || taker.run(out));
        thread.map_err(|e| format!("cannot start a thread: {e}"))?;
        let mut lender = Lender {
            child,
            orders,
            said,
            loads,
        };
        let offset = lender.clock_ahead(clock)?;
        *ahead.lock().unwrap_or_else(PoisonError::into_inner) = offset;
        Ok(lender)
    }

    /// Its wall clock minus ours, ns, from the question with the shortest turn.
    fn clock_ahead(&mut self, clock: Clock) -> Result<i64, String> {
        let mut best: Option<(i64, i64)> = None;
        for _ in 0..CLOCK_ASKED {
            let before = clock.unix_ns();
            let Said::Clock(theirs) = self.ask(&Order::Clock, &mut |_, _| true)? else {
                return Err("its answer is none about a clock".into());
            };
            let after = clock.unix_ns();
            let ahead = theirs.saturating_sub(before / 2 + after / 2);
            let turn = after - before;
            best = best.filter(|(t, _)| *t <= turn).or(Some((turn, ahead)));
        }
        best.map(|(_, ahead)| ahead)
            .ok_or_else(|| "no answer".into())
    }

    fn ask(
        &mut self,
        order: &Order,
        wait: &mut dyn FnMut(Duration, String) -> bool,
    ) -> Result<Said, String> {
        let gone = |what: &str| format!("the second machine {what}; see its message above");
        let mut line = serde_json::to_vec(order).map_err(|e| e.to_string())?;
        line.push(b'\n');
        let sent = self
            .orders
            .write_all(&line)
            .and_then(|()| self.orders.flush());
        sent.map_err(|_| gone("takes no orders"))?;
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(Said::Failed(why)) => return Err(format!("the second machine says: {why}")),
                Ok(Said::Waiting(after, text)) if wait(after, text.clone()) => {}
                Ok(Said::Waiting(..)) => return Err("interrupted".into()),
                Ok(said) => return Ok(said),
                Err(_) => return Err(gone("does not answer")),
            }
        }
    }

    pub(crate) fn turn(
        &mut self,
        lasts: Duration,
        wait: &mut dyn FnMut(Duration, String) -> bool,
    ) -> Result<(), String> {
        self.ask(&Order::Turn(lasts), wait).map(drop)
    }

    pub(crate) fn load(&mut self, load: &Load) -> Result<(), String> {
        self.ask(&Order::Load(load.clone()), &mut |_, _| true)?;
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.push(Loaded {
            number: load.number,
            direction: load.direction,
            bytes: Bytes::ZERO,
            rate: None,
            alive: load.flows,
            still_for: Duration::ZERO,
        });
        Ok(())
    }

    pub(crate) fn loads(&self) -> Vec<Loaded> {
        self.loads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Stops loads. A machine that is gone has stopped them itself.
    pub(crate) fn stop(&mut self, number: Option<u32>) {
        let _ = self.ask(&Order::Stop(number), &mut |_, _| true);
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.retain(|l| number.is_some_and(|n| l.number != n));
    }

    pub(crate) fn collect(&mut self) -> Vec<Ended> {
        match self.ask(&Order::Collect, &mut |_, _| true) {
            Ok(Said::Ended(ended)) => ended,
            Ok(_) => Vec::new(),
            Err(why) => vec![Ended {
                faults: vec![why],
                ..Ended::default()
            }],
        }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reader of what the second machine says.
struct Taker {
    tell: Sender<Said>,
    rows: Sender<Row>,
    clock: Clock,
    ahead: Arc<Mutex<i64>>,
    loads: Arc<Mutex<Vec<Loaded>>>,
}

impl Taker {
    fn run(self, out: impl Read) {
        let mut out = BufReader::new(out);
        while let Some(line) = read_line(&mut out) {
            // A line that is none of ours, such as a greeting of the other machine's shell.
            let Ok(said) = serde_json::from_slice(&line) else {
                continue;
            };
            match said {
                Said::Row(table, cells) => {
                    if let Some(row) = self.row(table, &cells) {
                        let _ = self.rows.send(row);
                    }
                }
                Said::Loads(now) => {
                    let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
                    for l in loads.iter_mut() {
                        if let Some(state) = now.iter().find(|n| n.number == l.number) {
                            *l = *state;
                        }
                    }
                }
                other => drop(self.tell.send(other)),
            }
        }
    }

    /// Row on our clock; `None` for one of another table, of another shape or of another time.
    fn row(&self, table: usize, cells: &[Cell]) -> Option<Row> {
        let ahead = *self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let table = *TableId::ALL.get(table).filter(|t| foreign(**t))?;
        let columns = table.spec().columns;
        if cells.len() != columns.len() {
            return None;
        }
        let ours = |i: usize| match &cells[i] {
            Cell::Int(ns) if columns[i].is_time() => Cell::Int(ns.saturating_sub(ahead)),
            Cell::Int(n) if *n < 0 => Cell::Null,
            other => other.clone(),
        };
        let row = table.row(&mut |i| ours(i))?;
        let off = row.time_ns().saturating_sub(self.clock.unix_ns());
        (-ROW_WITHIN_NS..ROW_WITHIN_NS)
            .contains(&off)
            .then_some(row)
    }
}
