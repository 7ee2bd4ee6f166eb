//! One judgement: grade, verdict, findings and uses of a test agree. A cured link once had "Grade A" above "packets wait up
//! to 107 ms, too large by 5.6 times".

use analysis::answer::Severity;
use analysis::services::Can;
use analysis::{Options, analyse_test};
use base::rng::{Streams, uniform};
use link::LinkSpec;

/// Links and queues that are drawn.
const LINKS: [&str; 4] = ["adsl", "fiber", "cable", "shdsl"];
const QUEUES: [&str; 5] = ["", "fq_codel", "codel", "pie", "cake"];

#[test]
fn grade_verdict_findings_and_uses_agree() {
    let first = first_seed();
    let mut grades = Vec::new();
    for seed in first..first + 24 {
        let mut rng = Streams::new(seed).stream("judgement");
        let mut draw = |n: usize| (uniform(&mut rng) * n as f64) as usize % n;
        let name = LINKS[draw(LINKS.len())];
        let mut spec = LinkSpec::named(name).expect("a preset");
        let queues = [QUEUES[draw(QUEUES.len())], QUEUES[draw(QUEUES.len())]];
        for (key, queue) in ["up.queue", "down.queue"].iter().zip(queues) {
            if !queue.is_empty() {
                spec.set(key, queue).expect("a queue");
            }
        }
        let outcome = sim::bufferbloat::run(&sim::bufferbloat::Plan::new(spec, seed));
        let recording = outcome.expect("a run").recording;
        let answer = analyse_test(&recording, &Options::default()).expect("an answer");
        let grade = answer.grade.letter.as_str();
        let verdict = report::verdict(&answer);
        let what = format!("seed {seed}, {name} with {queues:?}, grade {grade}: {verdict}");
        grades.push(grade.to_owned());
        let is_good = ["A+", "A"].contains(&grade);
        if is_good {
            assert!(!verdict.contains("times what the link needs"), "{what}");
            for f in &answer.findings {
                let is_bad = f.severity == Severity::Bad;
                assert!(
                    !is_bad && !f.says.contains("too large"),
                    "{what}: {}",
                    f.says
                );
            }
        }
        if ["D", "F"].contains(&grade) {
            assert!(
                verdict.contains("packets wait") || verdict.contains("late"),
                "{what}"
            );
            assert!(
                answer.uses.iter().any(|u| u.can == Can::Fail),
                "{what}: {:?}",
                answer.uses
            );
            let warns = |s: Severity| matches!(s, Severity::Bad | Severity::Warning);
            assert!(answer.findings.iter().any(|f| warns(f.severity)), "{what}");
        }
    }
    eprintln!("seeds {first} to {}: grades {grades:?}", first + 23);
    // Both kinds were drawn.
    for kind in [["A+", "A"], ["D", "F"]] {
        assert!(
            grades.iter().any(|g| kind.contains(&g.as_str())),
            "{grades:?}"
        );
    }
}

/// First seed: that of `SEED`, or 1.
fn first_seed() -> u64 {
    let given = std::env::var("SEED").ok();
    given.and_then(|s| s.parse().ok()).unwrap_or(1)
}
