//! Lines as cells describe them and as the page names them.

use base::print::significant;
use link::LinkSpec;

#[derive(Clone)]
pub struct Line {
    /// Rate of the uplink, bit/s.
    pub rate: f64,
    queue: String,
    /// More of the `[up]` table.
    more: Vec<String>,
    /// More of the `[down]` table.
    more_down: Vec<String>,
    /// Rate and queue of the way down.
    down: (f64, String),
    /// One way, ms.
    pub delay_ms: f64,
    pub v6: bool,
    /// Cross traffic up, as a share of the rate.
    pub others: f64,
    /// Links before and behind it, near end first, with `@` for itself: routers stand between.
    pub chain: &'static str,
}

impl Line {
    /// 1 Gbit/s down, 5 ms each way.
    pub fn up(rate: f64, queue: impl Into<String>) -> Line {
        Line {
            rate,
            queue: queue.into(),
            more: Vec::new(),
            more_down: Vec::new(),
            down: (1e9, "fifo".into()),
            delay_ms: 5.0,
            v6: false,
            others: 0.0,
            chain: "@",
        }
    }

    pub fn down(self, rate: f64, queue: impl Into<String>) -> Line {
        let down = (rate, queue.into());
        Line { down, ..self }
    }

    pub fn way_up(self, rate: f64, queue: String) -> Line {
        Line {
            rate,
            queue,
            ..self
        }
    }

    pub fn delay(self, delay_ms: f64) -> Line {
        Line { delay_ms, ..self }
    }

    pub fn with(mut self, key: &str, value: impl Into<String>) -> Line {
        self.more.push(format!("{key} = \"{}\"", value.into()));
        self
    }

    pub fn with_down(mut self, key: &str, value: impl Into<String>) -> Line {
        self.more_down.push(format!("{key} = \"{}\"", value.into()));
        self
    }

    pub fn v6(self) -> Line {
        Line { v6: true, ..self }
    }

    pub fn others(self, others: f64) -> Line {
        Line { others, ..self }
    }

    pub fn chain(self, chain: &'static str) -> Line {
        Line { chain, ..self }
    }

    /// The queue of its way up in a recording of the emulation.
    pub fn recorded_as(&self) -> String {
        match self.chain.split(',').position(|l| l == "@") {
            Some(i) if self.chain.contains(',') => format!("hop{}/up", i + 1),
            _ => "up".into(),
        }
    }

    /// As a link's file has it.
    pub fn text(&self) -> String {
        let way = |rate: f64, queue: &str| {
            format!(
                "rate = \"{rate} bit/s\"\ndelay = \"{} ms\"\nqueue = \"{queue}\"\n",
                self.delay_ms
            )
        };
        format!(
            "name = \"t\"\ntitle = \"t\"\n[up]\n{}{}\n[down]\n{}{}",
            way(self.rate, &self.queue),
            self.more.join("\n"),
            way(self.down.0, &self.down.1),
            self.more_down.join("\n")
        )
    }

    pub fn spec(&self) -> LinkSpec {
        LinkSpec::parse(&self.text()).expect("a line of ours")
    }

    pub fn name(&self) -> String {
        let way =
            |rate: f64, queue: &str| format!("{} Mbit/s, {queue}", significant(rate / 1e6, 4));
        let mut line = way(self.rate, &self.queue);
        for more in &self.more {
            line += &format!(", {}", more.replacen(" = ", " ", 1).replace('"', ""));
        }
        if self.chain != "@" {
            line = format!("{} with @ = {line}", self.chain.replace(',', " – "));
        }
        if self.down == (self.rate, self.queue.clone()) {
            line += ", both ways";
        } else if self.down.0 < 1e9 {
            line += &format!("; down {}", way(self.down.0, &self.down.1));
        }
        if self.delay_ms != 5.0 {
            line += &format!("; {} ms each way", self.delay_ms);
        }
        if self.v6 {
            line += ", IPv6";
        }
        if self.others > 0.0 {
            line += &format!(", others {} %", (self.others * 100.0).round());
        }
        line
    }
}
