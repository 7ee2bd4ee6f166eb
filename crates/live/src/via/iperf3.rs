//! Client of an iperf3 server: its control connection, and the streams that carry the load.

use super::ViaError;
use super::flow::{Flow, VANISHED_AFTER};
use super::open;
use crate::iperf3::{
    ACCESS_DENIED, COOKIE, CREATE_STREAMS, Carried, DISPLAY_RESULTS, EXCHANGE_RESULTS, IPERF_DONE,
    PARAM_EXCHANGE, Parameters, SERVER_ERROR, SERVER_TERMINATE, TEST_END, TEST_RUNNING, TEST_START,
    framed, results,
};
use crate::load::kernel::{close_abruptly, random_bytes};
use crate::load::pump::{End, Payload, Pump};
use crate::outlet::Outlet;
use base::record::Direction;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Patience with an answer, and with all of them together.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for the server to stop sending once it is told to.
const STOPS_WITHIN: Duration = Duration::from_secs(2);
/// Longest results of a server.
const MOST_JSON: usize = 1 << 20;
/// Size of a block, as iperf3 sends over TCP.
const BLOCK: usize = 128 << 10;

/// Parameters of a test.
pub(super) struct Spec<'a> {
    pub direction: Direction,
    pub flows: u32,
    pub seconds: u64,
    /// Congestion control of the sender.
    pub congestion: Option<&'a str>,
}

/// Control connection of a running test.
pub(super) struct Control {
    server: SocketAddr,
    stream: TcpStream,
    /// Second handles of the streams, which end with a reset once the server has stopped.
    streams: Vec<TcpStream>,
    sends: bool,
    /// True once the server has asked for our results.
    ending: bool,
}

/// Starts a test and opens its streams.
///
/// # Errors
/// An unreachable server, one that is busy or refuses, or one that is no iperf3.
pub(super) fn begin(
    (server, outlet): (SocketAddr, &Outlet),
    spec: &Spec,
) -> Result<(Control, Vec<TcpStream>), ViaError> {
    let until = Instant::now() + 2 * PATIENCE;
    let mut control = Control {
        server,
        stream: open(server, outlet, None)?,
        streams: Vec::new(),
        sends: spec.direction == Direction::Up,
        ending: false,
    };
    let cookie = cookie();
    control.say(&cookie, "its cookie")?;
    control.expect(PARAM_EXCHANGE, until)?;
    control.say(&framed(&parameters(spec)), "its parameters")?;
    control.expect(CREATE_STREAMS, until)?;
    let congestion = spec.congestion.filter(|_| control.sends);
    let mut streams = Vec::new();
    for _ in 0..spec.flows {
        let stream = open(server, outlet, congestion)?;
        { &stream }
            .write_all(&cookie)
            .and_then(|()| stream.try_clone())
            .map(|second| control.streams.push(second))
            .map_err(|e| control.failed("the cookie of a stream", e))?;
        streams.push(stream);
    }
    control.expect(TEST_START, until)?;
    control.expect(TEST_RUNNING, until)?;
    Ok((control, streams))
}

/// Text of 36 characters that names the test, and a zero.
fn cookie() -> [u8; COOKIE] {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = random_bytes::<COOKIE>().map(|b| LETTERS[usize::from(b % 32)]);
    cookie[COOKIE - 1] = 0;
    cookie
}

fn parameters(spec: &Spec) -> serde_json::Value {
    let up = spec.direction == Direction::Up;
    let parameters = Parameters {
        up: if up { spec.flows } else { 0 },
        down: if up { 0 } else { spec.flows },
        seconds: Some(spec.seconds),
        omitted: 0,
        congestion: spec.congestion.filter(|_| !up).map(str::to_owned),
        rate: None,
    };
    parameters.json(BLOCK)
}

/// Fills `buffer` before `until`.
fn read_by(mut stream: &TcpStream, buffer: &mut [u8], until: Instant) -> io::Result<()> {
    let mut have = 0;
    while have < buffer.len() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Control {
    fn failed(&self, what: &'static str, source: io::Error) -> ViaError {
        ViaError::Talk {
            server: self.server,
            what,
            source,
        }
    }

    fn refused(&self, why: impl Into<String>) -> ViaError {
        ViaError::Refused {
            server: self.server,
            why: why.into(),
        }
    }

    fn say(&mut self, bytes: &[u8], what: &'static str) -> Result<(), ViaError> {
        let sent = self
            .stream
            .set_write_timeout(Some(PATIENCE))
            .and_then(|()| self.stream.write_all(bytes));
        sent.map_err(|e| self.failed(what, e))
    }

    fn state(&self, until: Instant) -> Result<i8, ViaError> {
        let mut byte = [0];
        let until = until.min(Instant::now() + PATIENCE);
        let read = read_by(&self.stream, &mut byte, until);
        read.map_err(|e| self.failed("the next state of the test", e))?;
        Ok(byte[0] as i8)
    }

    /// Waits for a state of the server.
    fn expect(&self, wanted: i8, until: Instant) -> Result<(), ViaError> {
        match self.state(until)? {
            state if state == wanted => Ok(()),
            ACCESS_DENIED => Err(self.refused(
                "it runs a test of another client, and takes one at a time: try again in a minute",
            )),
            SERVER_TERMINATE => Err(self.refused("its operator has stopped it")),
            SERVER_ERROR => {
                let mut numbers = [0; 8];
                let read = read_by(&self.stream, &mut numbers, Instant::now() + PATIENCE);
                let code = u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]);
                Err(self.refused(match read {
                    Ok(()) => format!("it cannot run the test (error {code} of iperf3)"),
                    Err(_) => "it cannot run the test".into(),
                }))
            }
            other => Err(ViaError::Unexpected {
                server: self.server,
                what: format!(
                    "the state {other} where iperf3 has {wanted}: is it an iperf3 server?"
                ),
            }),
        }
    }

    /// Tells the server that the test is over, and ends the streams once it sends no more.
    pub fn stop(&mut self) {
        let told = self.say(&[TEST_END as u8], "the end of the test");
        self.ending = told.is_ok()
            && self
                .expect(EXCHANGE_RESULTS, Instant::now() + STOPS_WITHIN)
                .is_ok();
        for stream in self.streams.drain(..) {
            close_abruptly(&stream);
        }
    }

    /// Exchanges the results, so that the server is free for others.
    ///
    /// # Errors
    /// A server that does not answer as iperf3 does. What was measured is kept.
    pub fn finish(mut self, flows: usize, carried: &[u64]) -> Result<(), ViaError> {
        let until = Instant::now() + PATIENCE;
        if !self.ending {
            self.expect(EXCHANGE_RESULTS, until)?;
        }
        let ours = (0..flows).map(|k| Carried {
            bytes: carried.get(k).copied().unwrap_or(0),
            ..Carried::default()
        });
        let ours = framed(&results(&ours.collect::<Vec<_>>(), self.sends, None));
        self.say(&ours, "our results")?;
        let mut length = [0; 4];
        read_by(&self.stream, &mut length, until).map_err(|e| self.failed("its results", e))?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MOST_JSON {
            return Err(ViaError::Unexpected {
                server: self.server,
                what: format!("results of {length} bytes"),
            });
        }
        let mut theirs = vec![0; length];
        read_by(&self.stream, &mut theirs, until).map_err(|e| self.failed("its results", e))?;
        self.expect(DISPLAY_RESULTS, until)?;
        self.say(&[IPERF_DONE as u8], "the farewell")
    }
}

/// Carries the load of one stream until its end; gives the reason why it ended early.
pub(super) fn carry(flow: &Flow, stream: &TcpStream, payload: Option<&Payload>) -> Option<String> {
    let pump = Pump {
        socket: stream,
        until: flow.until,
        sample: flow.sample,
        patience: VANISHED_AFTER,
        gate: None,
        stop: &flow.stop,
    };
    let second = stream.try_clone().and_then(|s| flow.sampler(s, 0));
    let mut sampler = match second {
        Ok(sampler) => sampler,
        Err(e) => return Some(e.to_string()),
    };
    let end = match payload {
        Some(payload) => pump.send(payload, &mut |now, _, info| sampler.take(now, info)),
        None => pump.receive(&mut |_, _| sampler.sample()),
    };
    let ended = |why: &str| {
        Some(format!(
            "flow {} ended after {} bytes: {why}",
            flow.number,
            sampler.bytes()
        ))
    };
    match end {
        End::Stopped | End::TimeUp | End::Enough => None,
        End::PeerClosed => ended("the server closed the connection"),
        End::Stalled => ended("nothing moved for 15 s"),
        End::Failed(e) => ended(&e.to_string()),
    }
}
