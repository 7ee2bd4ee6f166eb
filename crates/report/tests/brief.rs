//! Ending of a test: all of it on one screen, with the next step as its last lines.

mod sample;

use analysis::answer::{Answer, Script, UseAnswer};
use analysis::services::Can;
use report::terminal::{Style, brief};
use std::path::Path;

const PLAIN: Style = Style {
    width: 80,
    colour: false,
    unicode: true,
};

/// Lines that the shell and the run add below: two paths, a prompt.
const BELOW: usize = 3;

fn with_uses(mut answer: Answer) -> Answer {
    let verdicts = [Can::Fail, Can::Fail, Can::Pass, Can::CannotTell, Can::Fail];
    let names = ["calls", "games", "video", "web", "work"];
    answer.uses = names
        .into_iter()
        .zip(verdicts)
        .map(|(name, can)| UseAnswer {
            name: name.into(),
            can,
            because: "95 % point of the round trip during an upload: 448 ms, limit 200 ms".into(),
            rtt_limit_ms: 200.0,
        })
        .collect();
    for (advice, on) in answer.advice.iter_mut().zip(["shaper-linux.sh", "x.sh"]) {
        advice.commands = vec![format!("sudo sh {on} on eth0")];
        advice.script = Some(Script {
            file: on.into(),
            text: "#!/bin/sh".into(),
        });
    }
    answer
}

#[test]
fn the_answer_of_every_test_fits_one_screen() {
    let samples = [
        sample::bloated_adsl(),
        sample::healthy_fiber(),
        sample::partial(),
    ];
    for (answer, _) in samples {
        let answer = with_uses(answer);
        for (width, height) in [(80, 24), (120, 24), (60, 30)] {
            let style = Style { width, ..PLAIN };
            let text = brief(&answer, Path::new("home.rec"), style);
            let lines: Vec<&str> = text.lines().collect();
            assert!(
                lines.len() + BELOW <= height,
                "{width}: {} lines\n{text}",
                lines.len()
            );
            for line in &lines {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn verdict_figures_uses_and_the_next_step_are_on_it() {
    let (answer, _) = sample::bloated_adsl();
    let answer = with_uses(answer);
    let text = brief(&answer, Path::new("my home.rec"), PLAIN);
    for part in [
        "Grade F.",
        "Upload",
        "Download",
        "Delay added",
        "RTT, loss at rest",
        "calls not · games not · video ok · web ? · work not",
        "calls: 95 % point",
        "sudo sh 'my home.rec'/shaper-linux.sh on eth0",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains("tailback analyse 'my home.rec'"), "{text}");
    let ascii = brief(
        &answer,
        Path::new("a.rec"),
        Style {
            unicode: false,
            ..PLAIN
        },
    );
    assert!(ascii.is_ascii(), "{ascii}");
}
