//! A cell of the table: a kind, a line or network, and what the kind shall say of it.

use crate::accuracy::line::Line;
use base::record::Recording;
use sim::bufferbloat::Network;

pub struct Cell {
    /// The kind with its parameters. `{trust}` is the key of the site's certificate.
    pub probe: String,
    pub on: On,
    pub truths: Vec<Truth>,
}

/// Host of a cell.
pub enum On {
    /// In virtual time.
    Bench(Line),
    /// Virtual time, with the simulator's TCP.
    Simulated(Line),
    /// The same in these surroundings.
    Around(Line, Box<Network>),
    /// With the kernel's own packets: `tailback probe --link`.
    Link(Line),
    /// The same, in a network in which something stands or is planted.
    Network {
        line: Line,
        /// As the page names what is planted; empty where nothing is.
        what: String,
        plants: Vec<Plant>,
    },
}

/// Additions to a network, in this order.
#[derive(Clone)]
pub enum Plant {
    /// A script for a shell at the near or the far end.
    NearShell(String),
    FarShell(&'static str),
    /// Rules of nftables at the near or the far end.
    NearRules(String),
    FarRules(&'static str),
    Resolver(u16, testkit::networks::resolver::Manner),
    /// Something at the near end that answers in the server's place.
    Impostor(u16),
    /// Something at the server that has this port of TCP.
    Taken(u16),
    /// A proxy for the web and a forwarder of names at the near end.
    Boxes,
    /// The site of pages.
    Site,
}

/// Claim that a kind's answer shall make.
pub struct Truth {
    pub at: At,
    pub is: Is,
}

/// Part of the answer that makes the claim.
pub enum At {
    /// The sum of these figures; of one mostly.
    Figures(&'static [&'static str]),
    /// The row of the first table that begins so, and the column.
    Row(&'static str, usize),
    /// The sentence that answers the question.
    Says,
    /// The piece of evidence that has this word.
    Evidence(&'static str),
    /// Its alerts above note.
    Alerts,
}

/// Truth that the link's figures alone do not give: it follows from the emulator's samples of its own queues, which
/// the analysis does not read.
pub type Sample = Box<dyn Fn(&Recording) -> Result<f64, String> + Send + Sync>;

pub enum Is {
    Near {
        value: f64,
        by: f64,
    },
    Between(f64, f64),
    /// As the emulator saw it, give or take this share of it and so much.
    Seen {
        of: Sample,
        share: f64,
        plus: f64,
    },
    /// Connections that the site took on this port, for each of so many loads.
    Counted {
        port: u16,
        loads: f64,
    },
    /// A text, or a part of it.
    Words(String),
    /// The whole text.
    Exactly(&'static str),
    /// The same, or the link's losses.
    Blames(&'static str),
    Nothing,
    /// No figure, but a reason.
    CannotTell,
}

impl Cell {
    pub fn bench(probe: impl Into<String>, line: Line, truths: Vec<Truth>) -> Cell {
        Cell {
            probe: probe.into(),
            on: On::Bench(line),
            truths,
        }
    }

    pub fn link(probe: impl Into<String>, line: Line, truths: Vec<Truth>) -> Cell {
        Cell {
            probe: probe.into(),
            on: On::Link(line),
            truths,
        }
    }

    /// The same with the kernel's own packets.
    pub fn linked(self) -> Cell {
        match self.on {
            On::Bench(line) => Cell {
                on: On::Link(line),
                ..self
            },
            _ => self,
        }
    }

    /// The same in virtual time.
    pub fn simulated(self) -> Cell {
        match self.on {
            On::Link(line) => Cell {
                on: On::Simulated(line),
                ..self
            },
            _ => self,
        }
    }

    pub fn network(
        probe: impl Into<String>,
        line: Line,
        (what, plants): (impl Into<String>, Vec<Plant>),
        truths: Vec<Truth>,
    ) -> Cell {
        Cell {
            probe: probe.into(),
            on: On::Network {
                line,
                what: what.into(),
                plants,
            },
            truths,
        }
    }

    pub fn kind(&self) -> &str {
        self.probe.split(':').next().unwrap_or("")
    }

    /// As the page names where it runs.
    pub fn place(&self) -> String {
        match &self.on {
            On::Bench(line) | On::Simulated(line) | On::Around(line, _) | On::Link(line) => {
                line.name()
            }
            On::Network { line, what, .. } if what.is_empty() => line.name(),
            On::Network { line, what, .. } => format!("{}: {what}", line.name()),
        }
    }
}

pub fn near(key: &'static [&'static str; 1], value: f64, by: f64) -> Truth {
    Truth {
        at: At::Figures(key),
        is: Is::Near { value, by },
    }
}

/// Within this share of the value.
pub fn share(key: &'static [&'static str; 1], value: f64, share: f64) -> Truth {
    near(key, value, share * value)
}

pub fn between(key: &'static [&'static str; 1], low: f64, high: f64) -> Truth {
    Truth {
        at: At::Figures(key),
        is: Is::Between(low, high),
    }
}

pub fn seen(key: &'static [&'static str; 1], of: Sample, share: f64, plus: f64) -> Truth {
    Truth {
        at: At::Figures(key),
        is: Is::Seen { of, share, plus },
    }
}

/// In the second column of that row.
pub fn row(name: &'static str, words: impl Into<String>) -> Truth {
    Truth {
        at: At::Row(name, 1),
        is: Is::Words(words.into()),
    }
}

pub fn says(words: &str) -> Truth {
    Truth {
        at: At::Says,
        is: Is::Words(words.into()),
    }
}

pub fn alerts(words: &str) -> Truth {
    Truth {
        at: At::Alerts,
        is: Is::Words(words.into()),
    }
}

pub fn no_alerts() -> Truth {
    Truth {
        at: At::Alerts,
        is: Is::Nothing,
    }
}
