//! Totals, the list of wrong figures, and the page of the book.

use crate::draws::family::Kind;
use crate::draws::judge::{FIGURES, Judged, Verdict};
use crate::draws::results::Result;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub right: u64,
    pub cannot_tell: u64,
    pub wrong: u64,
    pub covered: u64,
    pub intervals: u64,
}

impl Count {
    pub fn add(&mut self, j: &Judged) {
        match j.verdict {
            Verdict::Right => self.right += 1,
            Verdict::CannotTell => self.cannot_tell += 1,
            Verdict::Wrong => self.wrong += 1,
        }
        if let Some(covered) = j.covered {
            self.intervals += 1;
            self.covered += u64::from(covered);
        }
    }
    fn all(&self) -> u64 {
        self.right + self.cannot_tell + self.wrong
    }
    fn percent(&self, n: u64) -> f64 {
        100.0 * n as f64 / self.all().max(1) as f64
    }
    pub fn row(&self, name: &str) -> String {
        let coverage = match self.intervals {
            0 => "".into(),
            n => format!("{:.1} % of {n}", 100.0 * self.covered as f64 / n as f64),
        };
        format!(
            "| {name} | {} | {:.1} % | {:.1} % | {:.1} % | {coverage} |\n",
            self.all(),
            self.percent(self.right),
            self.percent(self.cannot_tell),
            self.percent(self.wrong)
        )
    }
}

pub struct Report<'a> {
    seed: u64,
    results: Vec<&'a Result>,
}

pub const HEAD: &str = "| | judged | right | cannot tell | wrong | 95 % intervals that hold the truth |\n|---|---|---|---|---|---|\n";

impl<'a> Report<'a> {
    pub fn of(seed: u64, results: &'a [Result]) -> Report<'a> {
        let results = results.iter().collect();
        Report { seed, results }
    }

    fn only(&self, kind: Kind) -> Report<'a> {
        let of = |r: &&&Result| r.kind == kind;
        Report {
            seed: self.seed,
            results: self.results.iter().filter(of).copied().collect(),
        }
    }

    fn judged(&self) -> impl Iterator<Item = (&'a Result, &'a Judged)> {
        let each = |r: &&'a Result| -> &'a Result { r };
        (self.results.iter().map(each)).flat_map(|r| r.judged.iter().map(move |j| (r, j)))
    }

    pub fn total(&self) -> Count {
        let mut all = Count::default();
        self.judged().for_each(|(_, j)| all.add(j));
        all
    }

    fn by_figure(&self) -> String {
        let mut text = HEAD.to_string();
        for figure in FIGURES {
            let mut count = Count::default();
            let of = self.judged().filter(|(_, j)| j.figure == *figure);
            of.for_each(|(_, j)| count.add(j));
            text += &count.row(figure);
        }
        text + &self.total().row("all")
    }

    fn by_family(&self) -> String {
        let mut families: BTreeMap<&str, (u64, Count)> = BTreeMap::new();
        for r in &self.results {
            let entry = families.entry(r.family.name()).or_default();
            entry.0 += 1;
            r.judged.iter().for_each(|j| entry.1.add(j));
        }
        let rows = families
            .iter()
            .map(|(name, (links, count))| count.row(&format!("{name} ({links} links)")));
        HEAD.to_string() + &rows.collect::<String>()
    }

    fn wrong(&self) -> String {
        let mut text = String::new();
        for r in &self.results {
            let wrong: Vec<_> = (r.judged.iter())
                .filter(|j| j.verdict == Verdict::Wrong)
                .collect();
            if wrong.is_empty() {
                continue;
            }
            let _ = writeln!(
                text,
                "draw {} ({}), `draws --seed {} {}`: {}{}",
                r.number,
                r.family.name(),
                self.seed,
                match r.kind {
                    Kind::Virtual => format!("--only {}", r.number),
                    Kind::Namespaces => format!("--only-namespaces {}", r.number),
                },
                r.link,
                match (r.complete, r.doubt) {
                    (false, _) => " (a phase could not run)",
                    (true, true) => " (this machine was too busy)",
                    (true, false) => "",
                }
            );
            for j in wrong {
                let direction = j.direction.map_or("", |d| d.word());
                let _ = writeln!(
                    text,
                    "    {} {direction}: said {}; truth {}",
                    j.figure, j.said, j.truth
                );
            }
        }
        text
    }

    fn times(&self) -> String {
        let took: f64 = self.results.iter().map(|r| r.took_s).sum();
        let slowest = self.results.iter().map(|r| r.took_s).fold(0.0, f64::max);
        let lasted: f64 = self.results.iter().map(|r| r.lasted_s).sum();
        format!(
            "{} links, {:.0} s of tests in {took:.0} s of processor time, the slowest {slowest:.1} s\n",
            self.results.len(),
            lasted
        )
    }

    /// Every figure, tab-separated, the link last.
    pub fn list(&self) -> String {
        let mut text = String::from(
            "number\tfamily\tfigure\tdirection\tverdict\tcovered\tsaid\ttruth\tlink\n",
        );
        for (r, j) in self.judged() {
            let covered = j.covered.map_or(String::new(), |c| c.to_string());
            let _ = writeln!(
                text,
                "{}\t{}\t{}\t{}\t{:?}\t{covered}\t{}\t{}\t{}",
                r.number,
                r.family.name(),
                j.figure,
                j.direction.map_or("", |d| d.word()),
                j.verdict,
                j.said,
                j.truth,
                r.link
            );
        }
        text
    }

    pub fn text(&self) -> String {
        format!(
            "seed {}\n{}\n{}\n{}\n{}",
            self.seed,
            self.times(),
            self.by_figure(),
            self.by_family(),
            self.wrong()
        )
    }

    /// The page of the book.
    pub fn page(&self) -> String {
        let mut text = INTRODUCTION.replace("=SEED", &format!("={}", self.seed));
        let host = live::host::facts(None);
        let processor = host.facts.get("processor").map_or("", String::as_str);
        let _ = writeln!(
            text,
            "Seed {}, {}, {} processors ({processor}), Linux {}.",
            self.seed,
            jiff::Zoned::now().strftime("%-d %B %Y"),
            host.cpus,
            host.kernel
        );
        for (kind, title) in [
            (Kind::Virtual, "In virtual time"),
            (Kind::Namespaces, "Over network namespaces"),
        ] {
            let part = self.only(kind);
            if part.results.is_empty() {
                continue;
            }
            let doubtful = part.results.iter().filter(|r| r.doubt).count();
            let _ = write!(text, "\n## {title}\n\n{}", part.times());
            if doubtful > 0 {
                let _ = writeln!(
                    text,
                    "In {doubtful} of them the emulator reported that this machine was too busy for exact timing."
                );
            }
            let cut = part.results.iter().filter(|r| !r.complete).count();
            if cut > 0 {
                let _ = writeln!(
                    text,
                    "In {cut} of them a phase of the test could not run, and the test said so."
                );
            }
            let wrong = match part.wrong() {
                list if list.is_empty() => "No figure was wrong.\n".to_string(),
                list => format!("Wrong figures, with the truth:\n\n```\n{list}```\n"),
            };
            let _ = write!(
                text,
                "\nBy figure:\n\n{}\nBy family of links:\n\n{}\n{wrong}",
                part.by_figure(),
                part.by_family()
            );
        }
        text
    }
}

const INTRODUCTION: &str = "\
# Random links

`make draws` runs `tailback test` over links that were drawn at random, and judges each figure of the answers. Nobody
tuned the program to these links: each release draws others. `make draws SEED=SEED` repeats this page.

The links have rates from 65 kbit/s to 300 Mbit/s, base RTTs from 2 to 600 ms, and queues of 0.1 to 60 bandwidth-delay
products. Nearly a third of them are clean. The others have one of: another discipline, random or bursty loss, jitter,
reordering, drift of the base delay, framing, a policer, a token bucket, a rate that varies, hosts that limit the load,
clocks that differ and drift, or cross traffic. A tenth, the mixed ones, have two or three of these at once. Over namespaces
there are also hosts with a slow processor.

In virtual time, the simulator's TCP fills the links, and the truth about waits comes from the simulated queue itself. Over
network namespaces, the kernel's TCP and the program itself run in real time.

A figure is *right* within these bounds, *wrong* outside them, and *cannot tell* where the answer says so:

| figure | right |
|---|---|
| link rate | within 5 % of the rate of whole IP packets |
| base RTT, queue, added delay | within 10 %, one full packet or 1 ms |
| each of these | also if the 95 % interval holds the truth and reaches no more than 25 % to either side |
| a bound (\"at least\") | at most the truth, and at least half of it; a smaller bound counts as *cannot tell* |
| discipline | the kind that unmarked packets meet; drop-tail also for a law whose own limit did the dropping |
| grade | the letter of the simulated queue's 95 % point; of the full queue where the load did not fill the link |
| cross traffic | told if and only if somebody else sent; traffic of another host may go untold as *cannot tell* |
| advice | a shaper of 75 to 100 % of the rate if and only if there is bufferbloat and the rate is fixed |

The last column counts the 95 % intervals of figures with one true value, and how many of them hold it.

";
