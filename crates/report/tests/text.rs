//! The terminal's text, read as a person would: are the figures there, and the reasons where there are none?

mod sample;

use analysis::answer::{Discipline, QueueIs};
use base::record::{Direction, Recording};
use report::terminal::{Style, line, text};
use stats::Figure;

const PLAIN: Style = Style {
    width: 90,
    colour: false,
    unicode: true,
};

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_verdict_comes_first_and_names_delay_kind_size_and_factor() {
    let (answer, recording) = sample::bloated_adsl();
    let out = text(&answer, &recording, PLAIN);
    let start: String = flat(&out).chars().take(260).collect();
    assert!(start.contains("When this link uploads, packets wait 430 ms in a drop-tail queue of 37.6 kB, 22.4 times what the link needs. Grade F."), "{start}");
}

#[test]
fn every_phase_has_its_column_and_columns_are_aligned() {
    let (answer, recording) = sample::bloated_adsl();
    let out = text(&answer, &recording, PLAIN);
    let rows: Vec<&str> = out
        .lines()
        .skip_while(|l| !l.starts_with("Phases"))
        .take_while(|l| !l.is_empty())
        .collect();
    assert!(rows.len() > 12, "{rows:?}");
    let width = |l: &str| l.chars().count();
    assert!(rows.iter().all(|l| width(l) == width(rows[0])), "{rows:#?}");
    assert_eq!(
        rows[0].split_whitespace().collect::<Vec<_>>(),
        ["Phases", "Idle", "Download", "Upload", "Both"]
    );
}

#[test]
fn what_could_not_be_had_shows_its_reason_and_never_zero() {
    let (mut answer, recording) = sample::partial();
    answer.phases[0].rtt.p99_ms = Figure::cannot_tell("four probes have no 99th percentile");
    let out = flat(&text(&answer, &recording, PLAIN));
    assert!(
        out.contains("the server stopped answering 6 s into the download"),
        "{out}"
    );
    assert!(out.contains("four probes have no 99th percentile"));
    assert!(out.contains("it would with an upload of 10 s"));
    assert!(out.contains("did not go to its planned end"));
    assert!(out.contains("No grade can be given"));
    let wait = out.split("Packets wait").nth(1).unwrap();
    let note = wait
        .strip_prefix(" ? [")
        .and_then(|w| w.split(']').next())
        .unwrap();
    assert!(wait.starts_with(&format!(" ? [{note}] 90 ms")), "{wait}");
    assert!(
        out.contains(&format!("[{note}] the server stopped answering")),
        "{out}"
    );
    assert!(!out.contains(" NaN"));
}

#[test]
fn a_queue_never_seen_full_is_said_to_be_at_least_so_large() {
    let (mut answer, _) = sample::bloated_adsl();
    answer.up.queue_is = QueueIs::AtLeast;
    answer.up.factor_too_large = Figure::cannot_tell("no base delay");
    answer.up.discipline.is = Discipline::CannotTell;
    assert_eq!(
        report::verdict(&answer),
        "When this link uploads, packets wait at least 430 ms in a queue of at least 37.6 kB. Which kind of queue it is did not show. Grade F."
    );
    answer.up.queue_ms = Figure::cannot_tell("the load never filled it");
    assert_eq!(
        report::verdict(&answer),
        "When this link uploads, one packet in twenty comes 420 ms late or later; how long the queue is cannot be told: the load never filled it. Grade F."
    );
}

#[test]
fn a_queue_never_seen_full_is_not_called_small() {
    let (mut answer, _) = sample::bloated_adsl();
    answer.up.queue_is = QueueIs::AtLeast;
    answer.up.factor_too_large = Figure::exactly(0.8);
    assert!(report::verdict(&answer).contains("in a drop-tail queue of at least 37.6 kB. Grade"));
    answer.up.queue_is = QueueIs::Size;
    assert!(
        report::verdict(&answer)
            .contains("a drop-tail queue of 37.6 kB, no more than the link needs. Grade")
    );
}

#[test]
fn limits_at_the_end_that_all_read_alike_are_one_row() {
    let (answer, recording) = sample::healthy_fiber();
    let out = flat(&text(&answer, &recording, PLAIN));
    assert!(out.contains("Answered in time Idle Download Upload Both within 20 ms to 400 ms 100 % 100 % 100 % 100 % Responsiveness"), "{out}");
}

#[test]
fn a_healthy_line_is_called_quick_only_where_both_directions_were_measured() {
    let (mut answer, _) = sample::healthy_fiber();
    assert!(report::verdict(&answer).starts_with(
        "This line stays quick under load: for 95 % of packets an upload adds at most"
    ));
    answer.up.added.p95_ms = Figure::cannot_tell("nothing was uploaded");
    let verdict = report::verdict(&answer);
    assert!(
        verdict.contains("what an upload adds cannot be told: nothing was uploaded"),
        "{verdict}"
    );
    assert!(!verdict.contains("quick"));
}

#[test]
fn ascii_terminals_get_ascii_only_in_every_width() {
    let (mut answer, recording) = sample::bloated_adsl();
    answer.title = "Zuhause – Müller’s µ-Leitung".into();
    answer.findings[0]
        .evidence
        .push("22× the BDP → 430 ms ± 3 %".into());
    for width in [1, 40, 60, 80, 200] {
        let style = Style {
            width,
            colour: false,
            unicode: false,
        };
        let out = text(&answer, &recording, style);
        assert!(out.is_ascii(), "{:?}", out.chars().find(|c| !c.is_ascii()));
        assert!(line(&answer, style).is_ascii());
        assert!(out.contains("22x the BDP -> 430 ms +- 3 %") || width < 60);
        // Only commands may be wider: they must be copied whole.
        let long = out
            .lines()
            .find(|l| l.len() > width.clamp(40, 110) && !l.contains("tc "));
        assert_eq!(long, None, "at {width}");
    }
    assert!(!text(&answer, &recording, PLAIN).is_ascii());
}

#[test]
fn colour_is_only_used_where_asked_and_foreign_text_cannot_use_it() {
    let (mut answer, recording) = sample::bloated_adsl();
    answer.title = "evil \u{1b}[2J title\u{9b}31m".into();
    answer.advice[0]
        .commands
        .push("echo \u{1b}]0;owned\u{7}".into());
    let plain = text(&answer, &recording, PLAIN);
    assert!(
        !plain.chars().any(|c| c.is_control() && c != '\n'),
        "{plain:?}"
    );
    let coloured = text(
        &answer,
        &recording,
        Style {
            colour: true,
            ..PLAIN
        },
    );
    assert!(coloured.contains("\u{1b}[1;31mWhen this link uploads"));
    assert!(!coloured.contains("\u{1b}[2J") && !coloured.contains("\u{1b}]0"));
}

#[test]
fn commands_are_printed_whole() {
    let (answer, recording) = sample::bloated_adsl();
    let out = text(&answer, &recording, Style { width: 40, ..PLAIN });
    assert!(out.contains(
        "tc class add dev eth0 parent 1: classid 1:10 htb rate 630kbit ceil 630kbit burst 1600\n"
    ));
}

#[test]
fn the_one_line_says_the_main_figures() {
    let (answer, _) = sample::bloated_adsl();
    let one = line(&answer, PLAIN);
    assert_eq!(one.lines().count(), 1);
    for part in [
        "Home ADSL",
        "grade F",
        "upload 665 kbit/s, waits 430 ms in 37.6 kB",
        "download 7.6 Mbit/s",
        "base RTT 19.2 ms",
        "176 RPM",
    ] {
        assert!(one.contains(part), "{part} is not in {one}");
    }
}

/// Slow lines are probed a few times a second: dots alone would not be read as a curve.
#[test]
fn sparse_probes_are_joined_by_lines_and_losses_interrupt_them() {
    let (answer, mut recording) = sample::bloated_adsl();
    let plot = |recording: &Recording| -> Vec<String> {
        let style = Style {
            unicode: false,
            ..PLAIN
        };
        let out = text(&answer, recording, style);
        out.lines()
            .skip_while(|l| !l.starts_with("Round-trip"))
            .skip(1)
            .take(8)
            .map(|l| l.split_once('|').expect("an axis").1.to_string())
            .collect()
    };
    let columns = |rows: &[String]| {
        (0..80)
            .filter(|i| rows.iter().any(|r| r.as_bytes().get(*i) == Some(&b'#')))
            .count()
    };
    recording.delay.retain(|d| d.seq % 300 == 0);
    let joined = columns(&plot(&recording));
    assert!(joined >= 75, "{joined} of 80 columns are drawn");
    for d in recording.delay.iter_mut().filter(|d| d.seq >= 3_000) {
        d.status = base::record::Status::Lost;
    }
    let interrupted = columns(&plot(&recording));
    assert!(
        (30..45).contains(&interrupted),
        "{interrupted} of 80 columns are drawn"
    );
}

#[test]
fn an_answer_without_a_recording_still_prints() {
    let (mut answer, _) = sample::bloated_adsl();
    answer.phases.clear();
    let out = text(&answer, &Recording::default(), PLAIN);
    assert!(out.contains("430 ms"));
    assert_eq!(answer.worst_direction, Some(Direction::Up));
}

#[test]
fn static_plots_hold_phases_units_and_loss_marks() {
    let (answer, recording) = sample::bloated_adsl();
    let svg = report::test_plots::rtt_over_time(&answer, &recording).svg();
    for part in [
        "Round-trip time, ms",
        "Throughput, Mbit/s",
        "time, s",
        "Upload",
        "class=\"loss\" d=\"M",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    assert!(svg.len() < 150_000, "{}", svg.len());
    let cdf = report::test_plots::cdf(&answer, &recording).svg();
    assert!(cdf.contains("Probes answered within, %") && cdf.contains("dash-both"));
    for empty in [
        report::test_plots::cdf(&answer, &Recording::default()).svg(),
        report::test_plots::rtt_over_time(&answer, &Recording::default()).svg(),
    ] {
        assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }
}
