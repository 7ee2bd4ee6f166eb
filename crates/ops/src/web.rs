//! Site of `tailback serve --web`: its files, and the recordings that its users save.

use analysis::browser::{WEBSOCKET, WEBTRANSPORT};
use base::record::{Delay, Event, Flow, Meta, Origin, Row, lines};
use base::{Bytes, text};
use experiment::bufferbloat;
use live::serve::{File, Keep};
use std::borrow::Cow;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use store::{Name, Options};

/// Most rows of a recording, longest text in one, and longest test, ns.
const MOST_ROWS: usize = 200_000;
const MOST_TEXT: usize = 2000;
const LONGEST_NS: i64 = 3_600_000_000_000;
/// Range of believable starts, UNIX ns: 2000 to 2096.
const STARTS: std::ops::Range<i64> = 946_684_800_000_000_000..4_000_000_000_000_000_000;
/// Kinds of events that a test in a browser writes.
const KINDS: [&str; 7] = [
    "phase",
    "phase_end",
    "warmup_end",
    "probe",
    "fault",
    "doubt",
    "clock",
];
/// Targets of its probes.
const TARGETS: [&str; 2] = [WEBTRANSPORT, WEBSOCKET];

/// Analysis for browsers that the program has brought along.
static ANALYSIS: OnceLock<&'static [u8]> = OnceLock::new();

/// Brings along the analysis for browsers: WebAssembly, compressed by gzip; empty if the program was built without. The first
/// call counts.
pub fn bring_analysis(gzipped: &'static [u8]) {
    ANALYSIS.get_or_init(|| gzipped);
}

fn analysis() -> &'static [u8] {
    ANALYSIS.get().copied().unwrap_or_default()
}

/// True if browsers can run the test: the program has brought their analysis.
pub(crate) fn has_analysis() -> bool {
    !analysis().is_empty()
}

/// Files of the site.
pub(crate) fn files() -> Arc<[File]> {
    let page = File {
        path: "/",
        kind: "text/html; charset=utf-8",
        gzip: false,
        body: Cow::Owned(report::browser::page().into_bytes()),
    };
    let others = report::browser::FILES
        .iter()
        .map(|&(path, kind, gzip, body)| File {
            path,
            kind,
            gzip,
            body: Cow::Borrowed(body),
        });
    let analysis = File {
        path: "/browser.wasm",
        kind: "application/wasm",
        gzip: true,
        body: Cow::Borrowed(analysis()),
    };
    [page, analysis].into_iter().chain(others).collect()
}

/// Directory of the recordings that users save.
pub(crate) struct Kept {
    directory: PathBuf,
    most: Bytes,
    one: Mutex<()>,
}

impl Kept {
    pub(crate) fn new(directory: PathBuf, most: Bytes) -> Kept {
        Kept {
            directory,
            most,
            one: Mutex::default(),
        }
    }
}

/// Bytes of all files below a directory.
fn size(at: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(at) else {
        return 0;
    };
    let of = |e: std::fs::DirEntry| match e.metadata() {
        Ok(m) if m.is_dir() => size(&e.path()),
        Ok(m) => m.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

impl Keep for Kept {
    fn keep(&self, from: IpAddr, text: &str) -> Result<String, String> {
        let (meta, rows) = read(from, text)?;
        // One at a time, so that the limit on the size holds.
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        if size(&self.directory) >= self.most.get() {
            return Err(format!(
                "the server keeps {:.0} of recordings and no more: its operator can make room",
                self.most
            ));
        }
        let written = || {
            let options = Options {
                name: Name::NextFree,
                ..Options::default()
            };
            let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
            let path = self.directory.join(format!("web-{now}.rec"));
            let mut writer = options.create(path, meta.clone())?;
            let path = writer.path().to_path_buf();
            for row in rows {
                writer.write(row)?;
            }
            writer.close(meta)?;
            Ok::<_, store::StoreError>(path)
        };
        let path = written().map_err(|e| format!("the server cannot keep it: {e}"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(name.into_owned())
    }
}

/// Reads what a page sent: facts in the first line, then rows. Everything in it is a stranger's.
///
/// # Errors
/// The first thing that is wrong.
pub fn read(from: IpAddr, text: &str) -> Result<(Meta, Vec<Row>), String> {
    let (first, rest) = text.split_once('\n').ok_or("the recording is empty")?;
    let told: Meta = serde_json::from_str(first).map_err(|e| format!("the facts: {e}"))?;
    if !STARTS.contains(&told.started_ns) {
        return Err("the test began in no believable year: is the browser's clock right?".into());
    }
    let plan: bufferbloat::Plan =
        serde_json::from_value(told.plan).map_err(|e| format!("the plan: {e}"))?;
    let whole = told.started_ns - LONGEST_NS / 60..told.started_ns + LONGEST_NS;
    let mut meta = Meta {
        format: base::record::FORMAT_VERSION,
        writer: short(&told.writer),
        origin: Origin::Measured,
        verb: "test".into(),
        title: short(&told.title),
        started_ns: told.started_ns,
        ended_ns: told.ended_ns.filter(|t| whole.contains(t)),
        complete: told.complete,
        plan: serde_json::to_value(&plan).unwrap_or_default(),
        ..Meta::default()
    };
    let browser = told.host.facts.get("browser");
    let facts = &mut meta.host.facts;
    facts.insert(
        "browser".into(),
        browser.map_or_else(String::new, |b| short(b)),
    );
    facts.insert("client".into(), from.to_canonical().to_string());
    let mut rows = Vec::new();
    for (n, line) in rest.lines().enumerate() {
        let wrong = |why: &str| format!("line {}: {why}", n + 2);
        if n >= MOST_ROWS {
            return Err(format!("a recording has at most {MOST_ROWS} rows"));
        }
        let row = lines::read(line).map_err(|e| wrong(&e))?;
        let known = match &row {
            Row::Delay(Delay { target, .. }) => TARGETS.contains(&&**target),
            Row::Flow(Flow { flow, .. }) => (0..4096).contains(flow),
            Row::Event(Event {
                kind,
                subject,
                detail,
                ..
            }) => {
                KINDS.contains(&&**kind) && subject.len() <= MOST_TEXT && detail.len() <= MOST_TEXT
            }
            _ => false,
        };
        if !known {
            return Err(wrong("no row of a test in a browser"));
        }
        if !whole.contains(&row.time_ns()) {
            return Err(wrong("its time is not within an hour of the start"));
        }
        rows.push(row);
    }
    Ok((meta, rows))
}

fn short(said: &str) -> String {
    text::clean(&said.chars().take(300).collect::<String>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Direction;

    const STARTED: i64 = 1_790_000_000_000_000_000;

    fn facts(title: &str) -> String {
        let meta = Meta {
            started_ns: STARTED,
            title: title.into(),
            complete: true,
            plan: serde_json::to_value(bufferbloat::Plan::default()).expect("plain data"),
            ..Meta::default()
        };
        serde_json::to_string(&meta).expect("plain data")
    }

    fn text(rows: &[Row]) -> String {
        let mut text = facts("at \u{1b}[31mhome") + "\n";
        rows.iter().for_each(|row| lines::write(row, &mut text));
        text
    }

    fn probe(at: i64, target: &str) -> Row {
        Delay::unanswered(at, 0, target.into()).into()
    }

    #[test]
    fn rows_of_a_test_are_kept_and_a_stranger_s_others_are_named() {
        let from = IpAddr::from([192, 0, 2, 7]);
        let flow = Flow::about(STARTED + 5, 3, Direction::Up);
        let good = [probe(STARTED, "webtransport"), flow.into()];
        let (meta, rows) = read(from, &text(&good)).expect("rows of a test");
        assert_eq!(rows, good);
        assert!(!meta.title.contains('\u{1b}'), "{}", meta.title);
        assert_eq!(meta.host.facts["client"], "192.0.2.7");
        let odd = Flow::about(STARTED, -1, Direction::Up);
        for (row, why) in [
            (probe(STARTED, "udp"), "line 2: no row"),
            (probe(0, "websocket"), "within an hour"),
            (probe(i64::MAX, "websocket"), "within an hour"),
            (odd.into(), "no row"),
        ] {
            let e = read(from, &text(&[row])).expect_err(why);
            assert!(e.contains(why), "{e}");
        }
        assert!(read(from, "").is_err() && read(from, "{}\n").is_err());
    }

    #[test]
    fn a_directory_that_is_full_takes_nothing_more() {
        let dir = testkit::TempDir::new("web-keep");
        let kept = Kept::new(dir.to_path_buf(), Bytes::new(2000));
        let from = IpAddr::from([192, 0, 2, 7]);
        let text = text(&[probe(STARTED, "webtransport")]);
        let name = kept.keep(from, &text).expect("there is room");
        let recording = store::read(dir.join(&name)).expect("a recording");
        assert_eq!(recording.delay.len(), 1);
        std::fs::write(dir.join("more"), [0; 3000]).expect("written");
        let e = kept.keep(from, &text).expect_err("it is full");
        assert!(e.contains("no more"), "{e}");
    }
}
