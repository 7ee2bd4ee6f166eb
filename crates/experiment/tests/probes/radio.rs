use super::{bench, figure, near, probe};
use sim::craft::Hosts;
use stats::Figure;

fn asleep(idle: &str, wake: &str, more: &str) -> experiment::Outcome {
    let up = format!(
        "rate = \"300 kbit/s\"\ndelay = \"150 ms\"\nsleep = \"radio:idle={idle},wake={wake}\"\n{more}"
    );
    probe("radio", &mut bench(&up, Hosts::default()))
}

/// Table 6.8.1 of the study of cellular networks: Reliance and MTNL.
#[test]
fn the_documents_two_radios_are_found_within_a_step() {
    for (idle, wake) in [(10.0, 1.6), (50.0, 2.0)] {
        let outcome = asleep(&format!("{idle} s"), &format!("{wake} s"), "");
        near(&outcome, "idle_timeout_ms", idle * 1e3, 1000.0);
        near(&outcome, "wake_ms", wake * 1e3, 20.0);
        let (_, low, high) = figure(&outcome, "idle_timeout_ms");
        assert!(low <= idle * 1e3 && idle * 1e3 <= high, "{low} to {high}");
    }
}

#[test]
fn radios_are_found_beside_jitter_and_loss() {
    let outcome = asleep(
        "5 s",
        "600 ms",
        "jitter = \"uniform:width=40ms\"\nloss = \"random:probability=0.05\"",
    );
    near(&outcome, "idle_timeout_ms", 5e3, 1000.0);
    near(&outcome, "wake_ms", 600.0, 60.0);
}

#[test]
fn a_line_without_a_radio_is_said_to_have_none() {
    let up = "rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\njitter = \"uniform:width=30ms\"";
    let outcome = probe("radio:longest=20 s", &mut bench(up, Hosts::default()));
    assert!(matches!(
        outcome.figure("idle_timeout_ms"),
        Figure::CannotTell { .. }
    ));
    assert!(
        outcome.says.starts_with("Nothing sleeps"),
        "{}",
        outcome.says
    );
}
