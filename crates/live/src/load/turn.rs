//! Turn on the server's uplink. A client takes it before it measures and holds it until the end, so that no other
//! client's load is in its figures.

use super::LoadError;
use super::exchange::{Line, Peer};
use crate::clock::mono_ns;
use base::Duration;
use measure::control::{ControlError, Request, Response};
use std::sync::atomic::AtomicBool;

/// Silence of the server that ends the wait; it reports the place each second.
const SILENT: Duration = Duration::from_secs(20);

/// Place in the queue for the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Clients before this one, the one that loads now included.
    pub place: u32,
    /// Expected time until the turn.
    pub after: Duration,
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n = self.place;
        let th = match (n % 10, n % 100) {
            (_, 11..=13) => "th",
            (1, _) => "st",
            (2, _) => "nd",
            (3, _) => "rd",
            _ => "th",
        };
        write!(
            f,
            "waiting for the server's uplink, {n}{th} in line, about {:.0}",
            self.after
        )
    }
}

/// Turn, held until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _held: Line,
}

impl Peer {
    /// Takes the uplink for a load of this length. If another client has it, `wait` gets the place each second and
    /// decides if the wait continues.
    ///
    /// # Errors
    /// Another client has the uplink and `wait` says no; the server refuses, vanishes, or is no Tailback.
    pub fn turn(
        &self,
        lasts: Duration,
        wait: &mut dyn FnMut(&Standing) -> bool,
    ) -> Result<Turn, LoadError> {
        let stream = self.connect(None)?;
        let stop = AtomicBool::new(false);
        let request = Request::Turn { duration: lasts };
        let mut answer = self.ask(&stream, &request, &stop)?.0;
        loop {
            let Response::Turn { place, after } = answer else {
                return Err(LoadError::Protocol {
                    server: self.server,
                    error: ControlError::Malformed {
                        what: "another answer than a place in the queue",
                    },
                });
            };
            if place == 0 {
                return Ok(Turn { _held: stream });
            }
            let standing = Standing { place, after };
            if !wait(&standing) {
                return Err(LoadError::Loaded {
                    server: self.server,
                    standing,
                });
            }
            let until = mono_ns() + SILENT.as_nanos() as i64;
            answer = self.hear(&stream, until, &stop)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::{ServeConfig, Server};

    #[test]
    fn places_are_said_as_people_say_them() {
        let say = |place| {
            let after = Duration::from_secs(40);
            Standing { place, after }.to_string()
        };
        assert_eq!(
            say(2),
            "waiting for the server's uplink, 2nd in line, about 40 s"
        );
        for (n, th) in [
            (1, "1st"),
            (3, "3rd"),
            (11, "11th"),
            (12, "12th"),
            (21, "21st"),
        ] {
            assert!(say(n).contains(th), "{}", say(n));
        }
    }

    fn peer(server: &Server, ip: [u8; 4]) -> Peer {
        Peer {
            server: (ip, server.local_addr().port()).into(),
            access: crate::load::Access::default(),
            patience: Duration::from_secs(5),
        }
    }

    #[test]
    fn a_second_turn_of_the_same_client_is_shared_and_ends_with_its_connection() {
        let config = ServeConfig {
            listen: vec![([0, 0, 0, 0], 0).into()],
            ..ServeConfig::default()
        };
        let server = Server::start(config).expect("it serves");
        let here = peer(&server, [127, 0, 0, 1]);
        let minute = Duration::from_secs(60);
        let first = here.turn(minute, &mut |_| false).expect("free");
        let second = here.turn(minute, &mut |_| false).expect("its own");
        drop((first, second));
        assert!(here.turn(minute, &mut |_| false).is_ok());
    }
}
