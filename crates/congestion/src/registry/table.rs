//! The table itself, and how each entry's words become its parameters.

use super::{AnyController, Spec};
use crate::hystart::Mode;
use crate::{
    bbr1, bbr3, bic, compound, cubic, dctcp, fixed, ledbat, newreno, prague, reno, tahoe, vegas,
    westwood,
};
use base::words::{Entry, Parameter, Unit, Words};

const fn count(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Count,
        default: Some(default),
        min: "1",
        max: "1000000",
        section,
        doc,
    }
}
const fn part(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Probability,
        default: Some(default),
        min: "0.01",
        max: "0.99",
        section,
        doc,
    }
}
const fn number(
    name: &'static str,
    default: &'static str,
    min: &'static str,
    max: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Number,
        default: Some(default),
        min,
        max,
        section,
        doc,
    }
}
const fn duration(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Duration,
        default: Some(default),
        min: "1 us",
        max: "1000 s",
        section,
        doc,
    }
}
const fn switch(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Switch,
        default: Some(default),
        min: "false",
        max: "true",
        section,
        doc,
    }
}
const fn abc(default: &'static str, section: &'static str) -> Parameter {
    count(
        "abc",
        default,
        section,
        "most segments that an ACK may add in slow start",
    )
}

const WINDOW: Parameter = Parameter {
    name: "window",
    unit: Unit::Bytes,
    default: Some("65535 B"),
    min: "1 B",
    max: "100 GB",
    section: "RFC 9293 section 3.1",
    doc: "the window, or the most that it may grow to",
};
const WHOLE: Parameter = switch(
    "whole",
    "false",
    "Linux",
    "whole segments: halves rounded down, slow start while the window equals ssthresh",
);
const RENO: &[Parameter] = &[
    abc("2", "RFC 3465 section 2.3"),
    WHOLE,
    part("beta", "0.5", "RFC 5681 equation 4", "part kept on a loss"),
    part(
        "beta_ecn",
        "0.5",
        "RFC 3168 section 6.1.2",
        "part kept on a mark; 0.8 is RFC 8511's",
    ),
];

pub const CONTROLLERS: &[Spec] = &[
    Spec {
        entry: Entry {
            name: "none",
            summary: "a fixed window, full from the first segment on; repairs by time-out alone",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988, figure 3"],
            parameters: &[WINDOW],
        },
        build: |w, m| {
            AnyController::FixedWindow(fixed::FixedWindow::new(&fixed_params(w), m.setup))
        },
    },
    Spec {
        entry: Entry {
            name: "no_avoidance",
            summary: "slow start up to a window and after each time-out, no congestion avoidance",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988, figure 8"],
            parameters: &[WINDOW],
        },
        build: |w, m| {
            AnyController::NoAvoidance(fixed::NoAvoidance::new(&fixed_params(w), m.setup))
        },
    },
    Spec {
        entry: Entry {
            name: "no_slow_start",
            summary: "congestion avoidance from a full window on, no slow start",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988"],
            parameters: &[WINDOW],
        },
        build: |w, m| {
            AnyController::NoSlowStart(fixed::NoSlowStart::new(&fixed_params(w), m.setup))
        },
    },
    Spec {
        entry: Entry {
            name: "tahoe",
            summary: "one segment and slow start after any loss",
            sources: &["V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988"],
            parameters: &[abc("1", "the paper")],
        },
        build: |w, m| AnyController::Tahoe(tahoe::Tahoe::new(&tahoe_params(w), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "reno",
            summary: "half the window on a loss, a segment a round trip; without SACK recovery ends at the first new ACK",
            sources: &[
                "RFC 5681, TCP Congestion Control",
                "RFC 2001, TCP Slow Start, Congestion Avoidance, Fast Retransmit, and Fast Recovery Algorithms",
            ],
            parameters: RENO,
        },
        build: |w, m| AnyController::Reno(reno::Reno::new(&reno_params(w), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "newreno",
            summary: "Reno whose recovery lasts until all that was outstanding is acknowledged, without SACK too",
            sources: &[
                "RFC 6582, The NewReno Modification to TCP's Fast Recovery Algorithm",
                "RFC 5681, TCP Congestion Control",
            ],
            parameters: RENO,
        },
        build: |w, m| AnyController::NewReno(newreno::NewReno::new(&reno_params(w), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "bic",
            summary: "searches by halves for the window at which congestion was met",
            sources: &[
                "L. Xu, K. Harfoush, I. Rhee, Binary Increase Congestion Control (BIC) for Fast Long-Distance Networks, INFOCOM 2004",
            ],
            parameters: &[
                part("beta", "0.8", "Linux", "part kept on a loss"),
                number(
                    "max_increment",
                    "16",
                    "1",
                    "1000",
                    "Linux; S_max of section III",
                    "most segments that a round trip may add",
                ),
                number(
                    "low_window",
                    "14",
                    "0",
                    "100000",
                    "section III",
                    "windows of fewer segments are Reno's",
                ),
                number(
                    "smooth",
                    "5",
                    "1",
                    "1000",
                    "Linux: 20/4",
                    "round trips for a segment near the old window",
                ),
                switch(
                    "fast_convergence",
                    "true",
                    "section III.C",
                    "give way when a loss comes earlier than before",
                ),
                abc("2", "RFC 3465 section 2.3"),
            ],
        },
        build: |w, m| AnyController::Bic(bic::Bic::new(&bic_params(w), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "cubic",
            summary: "grows along a cubic curve of the time since the last congestion; the Internet's default",
            sources: &[
                "RFC 9438, CUBIC for Fast and Long-Distance Networks",
                "RFC 9406, HyStart++: Modified Slow Start for TCP",
            ],
            parameters: &[
                Parameter {
                    name: "variant",
                    unit: Unit::Choice(&["rfc9438", "linux"]),
                    default: Some("rfc9438"),
                    min: "rfc9438",
                    max: "linux",
                    section: "RFC 9438 sections 4.2 and 4.3; Linux",
                    doc: "linux: never as fast as Reno again, and the curve is looked up the least round trip ahead",
                },
                number(
                    "c",
                    "0.4",
                    "0.001",
                    "100",
                    "RFC 9438 section 5.1",
                    "steepness of the curve, segments/s³",
                ),
                part(
                    "beta",
                    "0.7",
                    "RFC 9438 section 4.6",
                    "part kept on congestion",
                ),
                switch(
                    "fast_convergence",
                    "true",
                    "RFC 9438 section 4.7",
                    "give way when congestion comes earlier than before",
                ),
                switch(
                    "reno_friendly",
                    "true",
                    "RFC 9438 section 4.3",
                    "never grow slower than Reno",
                ),
                HYSTART,
                abc("8", "RFC 9406 section 4.3"),
            ],
        },
        build: |w, m| AnyController::Cubic(Box::new(cubic::Cubic::new(&cubic_params(w), m.setup))),
    },
    Spec {
        entry: Entry {
            name: "compound",
            summary: "Reno's window and one that grows fast while there is no queue",
            sources: &[
                "K. Tan, J. Song, Q. Zhang, M. Sridharan, A Compound TCP Approach for High-Speed and Long Distance Networks, INFOCOM 2006",
            ],
            parameters: &[
                number(
                    "alpha",
                    "0.125",
                    "0.001",
                    "10",
                    "section III",
                    "growth of the delay window",
                ),
                part(
                    "beta",
                    "0.5",
                    "section III",
                    "part of the window that a loss takes",
                ),
                number(
                    "gamma",
                    "30",
                    "0.1",
                    "100000",
                    "section III",
                    "segments queued at which it gives way",
                ),
                number(
                    "zeta",
                    "1",
                    "0.01",
                    "100",
                    "section III",
                    "how fast it gives way",
                ),
                number(
                    "low_window",
                    "38",
                    "0",
                    "100000",
                    "draft-sridharan-tcpm-ctcp-02",
                    "windows of fewer segments are Reno's",
                ),
                WHOLE,
                abc("2", "RFC 3465 section 2.3"),
            ],
        },
        build: |w, m| {
            AnyController::Compound(compound::Compound::new(&compound_params(w), m.setup))
        },
    },
    Spec {
        entry: Entry {
            name: "vegas",
            summary: "keeps two to four segments in the bottleneck's queue, by comparing round trips",
            sources: &[
                "L. Brakmo, L. Peterson, TCP Vegas: End to End Congestion Avoidance on a Global Internet, IEEE JSAC 13(8), 1995",
            ],
            parameters: &[
                number(
                    "alpha",
                    "2",
                    "0.1",
                    "100000",
                    "section 3.2, Linux",
                    "segments queued below which it grows",
                ),
                number(
                    "beta",
                    "4",
                    "0.1",
                    "100000",
                    "section 3.2, Linux",
                    "segments queued above which it shrinks",
                ),
                number(
                    "gamma",
                    "1",
                    "0.1",
                    "100000",
                    "section 3.3",
                    "segments queued that end slow start",
                ),
                part("kept", "0.75", "the authors' code", "part kept on a loss"),
            ],
        },
        build: |w, m| AnyController::Vegas(vegas::Vegas::new(&vegas_params(w), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "westwood",
            summary: "Westwood+: after a loss, what the path delivered times its least round trip",
            sources: &[
                "L. Grieco, S. Mascolo, Performance Evaluation and Comparison of Westwood+, New Reno, and Vegas TCP Congestion Control, ACM CCR 34(2), 2004",
            ],
            parameters: &[
                part(
                    "smoothing",
                    "0.875",
                    "section 2",
                    "weight of the old estimate",
                ),
                duration(
                    "least_sample",
                    "50 ms",
                    "Linux",
                    "least time that a sample covers",
                ),
                abc("2", "RFC 3465 section 2.3"),
            ],
        },
        build: |w, m| {
            AnyController::Westwood(westwood::Westwood::new(&westwood_params(w), m.setup))
        },
    },
    Spec {
        entry: Entry {
            name: "dctcp",
            summary: "reduces by half of the part that is marked; for data centres",
            sources: &[
                "RFC 8257, Data Center TCP (DCTCP): TCP Congestion Control for Data Centers",
            ],
            parameters: &[
                part(
                    "g",
                    "0.0625",
                    "RFC 8257 section 4.2",
                    "weight of the newest round trip",
                ),
                ALPHA,
                abc("2", "RFC 3465 section 2.3"),
            ],
        },
        build: |w, m| AnyController::Dctcp(dctcp::Dctcp::new(&dctcp_params(w), m.setup)),
    },
    Spec {
        entry: Entry {
            name: "prague",
            summary: "DCTCP for the Internet: the sender of L4S",
            sources: &[
                "draft-briscoe-iccrg-prague-congestion-control-04, Prague Congestion Control",
                "RFC 9331, The Explicit Congestion Notification (ECN) Protocol for Low Latency, Low Loss, and Scalable Throughput (L4S)",
            ],
            parameters: &[
                part("g", "0.0625", "the draft", "weight of the newest sample"),
                ALPHA,
                duration(
                    "virtual_rtt",
                    "25 ms",
                    "the draft",
                    "round trip as short as which it never behaves",
                ),
                Parameter {
                    min: "0",
                    ..count(
                        "transition",
                        "500",
                        "the Linux code",
                        "round trips until it does so",
                    )
                },
                abc("2", "RFC 3465 section 2.3"),
            ],
        },
        build: |w, m| {
            AnyController::Prague(Box::new(prague::Prague::new(&prague_params(w), m.setup)))
        },
    },
    Spec {
        entry: Entry {
            name: "ledbat",
            summary: "background: gives way to anybody else, by one-way delay",
            sources: &["RFC 6817, Low Extra Delay Background Transport (LEDBAT)"],
            parameters: &[
                duration(
                    "target",
                    "100 ms",
                    "RFC 6817 section 2.5",
                    "queueing delay aimed at",
                ),
                number(
                    "gain",
                    "1",
                    "0.001",
                    "1",
                    "RFC 6817 section 2.5",
                    "segments a round trip that an empty queue adds",
                ),
                count(
                    "allowed_increase",
                    "1",
                    "RFC 6817 section 2.5",
                    "segments beyond what is in flight",
                ),
                count(
                    "min_window",
                    "2",
                    "RFC 6817 section 2.5",
                    "least window in segments",
                ),
            ],
        },
        build: |w, m| {
            AnyController::Ledbat(Box::new(ledbat::Ledbat::new(&ledbat_params(w), m.setup)))
        },
    },
    Spec {
        entry: Entry {
            name: "bbr1",
            summary: "models rate and round trip of the path, version 1; does not mind losses",
            sources: &["draft-cardwell-iccrg-bbr-congestion-control-00, BBR Congestion Control"],
            parameters: &[
                number(
                    "high_gain",
                    "2.885",
                    "1.1",
                    "10",
                    "the draft, section 4.2.1",
                    "gain while starting",
                ),
                number(
                    "cwnd_gain",
                    "2",
                    "1",
                    "10",
                    "the draft, section 4.2.3",
                    "window in units of the path's capacity",
                ),
                count(
                    "bandwidth_rounds",
                    "10",
                    "the draft, section 4.1.1",
                    "round trips over which the most delivered is kept",
                ),
                duration(
                    "min_rtt_window",
                    "10 s",
                    "the draft, section 4.1.2",
                    "time over which the least round trip is kept",
                ),
                duration(
                    "probe_rtt",
                    "200 ms",
                    "the draft, section 4.3.5",
                    "how long inflight stays low to measure it",
                ),
            ],
        },
        build: |w, m| {
            AnyController::Bbr1(Box::new(bbr1::Bbr1::new(
                &bbr1_params(w),
                m.setup,
                m.now,
                m.rng("bbr1"),
            )))
        },
    },
    Spec {
        entry: Entry {
            name: "bbr3",
            summary: "models rate, round trip and losses of the path, version 3",
            sources: &["draft-ietf-ccwg-bbr-04, BBR Congestion Control"],
            parameters: &[
                number(
                    "startup_gain",
                    "2.77",
                    "1.1",
                    "10",
                    "the draft, section 2.4",
                    "gain of pacing while starting",
                ),
                part(
                    "drain_gain",
                    "0.5",
                    "the draft, section 2.4",
                    "gain of pacing while draining",
                ),
                number(
                    "cwnd_gain",
                    "2",
                    "1",
                    "10",
                    "the draft, section 2.5",
                    "window in units of the path's capacity",
                ),
                Parameter {
                    min: "0.0001",
                    ..part(
                        "loss_threshold",
                        "0.02",
                        "the draft, section 2.7",
                        "part that may be lost in a round trip of probing",
                    )
                },
                part(
                    "beta",
                    "0.7",
                    "the draft, section 2.7",
                    "part kept in a round trip with losses",
                ),
                part(
                    "headroom",
                    "0.15",
                    "the draft, section 2.7",
                    "part of the bound left to others",
                ),
                duration(
                    "min_rtt_window",
                    "10 s",
                    "the draft, section 2.13",
                    "time over which the least round trip is kept",
                ),
                duration(
                    "probe_rtt",
                    "200 ms",
                    "the draft, section 2.13",
                    "how long inflight stays low to measure it",
                ),
            ],
        },
        build: |w, m| {
            AnyController::Bbr3(Box::new(bbr3::Bbr3::new(
                &bbr3_params(w),
                m.setup,
                m.now,
                m.rng("bbr3"),
            )))
        },
    },
];

const ALPHA: Parameter = Parameter {
    name: "alpha",
    unit: Unit::Probability,
    default: Some("1"),
    min: "0",
    max: "1",
    section: "RFC 8257 section 4.2",
    doc: "part marked that a new connection assumes",
};
const HYSTART: Parameter = Parameter {
    name: "hystart",
    unit: Unit::Choice(Mode::NAMES),
    default: Some("plusplus"),
    min: "plusplus",
    max: "off",
    section: "RFC 9438 section 4.10",
    doc: "how slow start ends before a loss: plusplus (RFC 9406), classic (Linux), off",
};

pub(super) fn fixed_params(w: &Words) -> fixed::Params {
    fixed::Params {
        window: w.bytes("window"),
    }
}
pub(super) fn tahoe_params(w: &Words) -> tahoe::Params {
    tahoe::Params {
        abc: w.count("abc"),
    }
}
pub(super) fn reno_params(w: &Words) -> reno::Params {
    reno::Params {
        abc: w.count("abc"),
        whole: w.switch("whole"),
        beta: w.real("beta"),
        beta_ecn: w.real("beta_ecn"),
    }
}
fn hystart(w: &Words) -> Mode {
    Mode::named(w.choice("hystart")).expect("the table offers no others")
}
pub(super) fn cubic_params(w: &Words) -> cubic::Params {
    cubic::Params {
        variant: match w.choice("variant") {
            "linux" => cubic::Variant::Linux,
            _ => cubic::Variant::Rfc9438,
        },
        c: w.real("c"),
        beta: w.real("beta"),
        fast_convergence: w.switch("fast_convergence"),
        reno_friendly: w.switch("reno_friendly"),
        hystart: hystart(w),
        abc: w.count("abc"),
    }
}

pub(super) fn bic_params(w: &Words) -> bic::Params {
    bic::Params {
        beta: w.real("beta"),
        max_increment: w.real("max_increment"),
        low_window: w.real("low_window"),
        smooth: w.real("smooth"),
        fast_convergence: w.switch("fast_convergence"),
        abc: w.count("abc"),
    }
}
pub(super) fn compound_params(w: &Words) -> compound::Params {
    compound::Params {
        alpha: w.real("alpha"),
        beta: w.real("beta"),
        gamma: w.real("gamma"),
        zeta: w.real("zeta"),
        low_window: w.real("low_window"),
        abc: w.count("abc"),
        whole: w.switch("whole"),
    }
}
pub(super) fn vegas_params(w: &Words) -> vegas::Params {
    vegas::Params {
        alpha: w.real("alpha"),
        beta: w.real("beta"),
        gamma: w.real("gamma"),
        kept: w.real("kept"),
    }
}
pub(super) fn westwood_params(w: &Words) -> westwood::Params {
    westwood::Params {
        smoothing: w.real("smoothing"),
        least_sample: w.duration("least_sample"),
        abc: w.count("abc"),
    }
}
pub(super) fn dctcp_params(w: &Words) -> dctcp::Params {
    dctcp::Params {
        g: w.real("g"),
        alpha: w.real("alpha"),
        abc: w.count("abc"),
    }
}
pub(super) fn prague_params(w: &Words) -> prague::Params {
    prague::Params {
        g: w.real("g"),
        alpha: w.real("alpha"),
        virtual_rtt: w.duration("virtual_rtt"),
        transition: w.count("transition"),
        abc: w.count("abc"),
    }
}
pub(super) fn ledbat_params(w: &Words) -> ledbat::Params {
    ledbat::Params {
        target: w.duration("target"),
        gain: w.real("gain"),
        allowed_increase: w.count("allowed_increase"),
        min_window: w.count("min_window"),
    }
}
pub(super) fn bbr1_params(w: &Words) -> bbr1::Params {
    bbr1::Params {
        high_gain: w.real("high_gain"),
        cwnd_gain: w.real("cwnd_gain"),
        bandwidth_rounds: w.count("bandwidth_rounds"),
        min_rtt_window: w.duration("min_rtt_window"),
        probe_rtt: w.duration("probe_rtt"),
    }
}
pub(super) fn bbr3_params(w: &Words) -> bbr3::Params {
    bbr3::Params {
        startup_gain: w.real("startup_gain"),
        drain_gain: w.real("drain_gain"),
        cwnd_gain: w.real("cwnd_gain"),
        loss_threshold: w.real("loss_threshold"),
        beta: w.real("beta"),
        headroom: w.real("headroom"),
        min_rtt_window: w.duration("min_rtt_window"),
        probe_rtt: w.duration("probe_rtt"),
    }
}
