//! Rules that hold for every verb: exit codes, where an error goes, completions and man pages.

use std::path::Path;
use std::process::{Command, Output};
use testkit::{Program, TempDir};

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

fn tailback(args: &[&str]) -> Output {
    program().run(args)
}

#[test]
fn an_unknown_option_is_wrong_usage_for_every_verb_and_prints_no_data() {
    let all = program().all_verbs();
    assert!(all.len() > 20, "{all:?}");
    for words in all {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push("--no-such-option");
        let output = tailback(&args);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            output.stdout.is_empty(),
            "{words:?} prints to standard output"
        );
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("--no-such-option"), "{words:?}: {text}");
    }
}

/// Arguments with which a verb reads a recording.
const READERS: [&[&str]; 11] = [
    &["analyse"],
    &["report"],
    &["status"],
    &["twin"],
    &["whatif"],
    &["run"],
    &["trace"],
    &["import"],
    &["sim"],
    &["compare", "other.rec"],
    &["share", "--dry-run"],
];

#[test]
fn a_file_that_is_missing_has_one_exit_code_and_is_named() {
    let dir = TempDir::new("verbs");
    let missing = dir.at("missing.rec");
    for verb in READERS {
        let output = tailback(&[verb, &[missing.as_str()]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {text}");
        assert!(output.stdout.is_empty(), "{verb:?}");
        let named = text.contains("missing.rec") || text.contains("other.rec");
        assert!(named, "{verb:?}: {text}");
    }
}

#[test]
fn a_file_of_another_kind_is_wrong_usage_for_every_verb_and_is_named() {
    let dir = TempDir::new("verbs");
    let letter = dir.file("letter.txt", "Dear engineer,\n");
    for verb in READERS {
        let verb: Vec<&str> = verb
            .iter()
            .map(|w| w.strip_suffix("other.rec").map_or(*w, |_| &*letter))
            .collect();
        let output = tailback(&[&verb[..], &[letter.as_str()]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {text}");
        assert!(output.stdout.is_empty(), "{verb:?}");
        assert!(text.contains("letter.txt"), "{verb:?}: {text}");
    }
}

#[test]
fn what_cannot_be_measured_has_one_exit_code() {
    // Nobody listens on this port: it was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = free.local_addr().expect("an address").to_string();
    drop(free);
    for args in [
        &["test", &server][..],
        &["probe", "rtt", &server],
        &["control", "status", "--wan", "lo"],
        &["control", "stop", "--wan", "lo"],
    ] {
        let output = tailback(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {text}");
        assert!(
            output.stdout.is_empty() && text.lines().any(|l| l.starts_with("tailback: ")),
            "{args:?}: {text}"
        );
    }
}

/// Verbs without an answer of their own in figures, and the reason.
const NO_JSON: [(&str, &str); 3] = [
    (
        "load",
        "obeys a test on another machine, which has the answer",
    ),
    ("completions", "prints a script"),
    ("man", "writes pages"),
];

#[test]
fn every_verb_with_an_answer_gives_it_as_json() {
    for verb in program().verbs(&[]) {
        let output = tailback(&[verb.as_str(), "--help"]);
        let mut help = String::from_utf8(output.stdout).expect("text");
        for inner in program().verbs(&[verb.as_str()]) {
            let output = tailback(&[verb.as_str(), inner.as_str(), "--help"]);
            help += &String::from_utf8(output.stdout).expect("text");
        }
        let is_exempt = NO_JSON.iter().any(|(name, _)| *name == verb);
        assert!(is_exempt || help.contains("--json"), "{verb} has no --json");
    }
}

#[test]
fn every_verb_can_be_quiet() {
    for words in program().all_verbs() {
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = tailback(&[&args[..], &["--help"]].concat());
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(help.contains("-q, --quiet"), "{words:?}");
    }
    // No progress at all: the answer is on standard output, and standard error is empty.
    let dir = TempDir::new("quiet");
    let to = dir.at("quiet.rec");
    let test = [
        "test",
        "--virtual",
        "--link",
        "adsl",
        "--quiet",
        "--output",
        &to,
    ];
    for args in [
        &test[..],
        &["analyse", &to, "--quiet"],
        &["model", "bdp", "rate=10Mbit/s", "rtt=20ms", "-q"],
    ] {
        let output = tailback(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        assert!(!output.stdout.is_empty(), "{args:?}");
        let left = said
            .lines()
            .filter(|l| !l.starts_with("Report: ") && !l.starts_with("Recording: "));
        assert_eq!(left.count(), 0, "{args:?}: {said}");
    }
}

#[test]
fn completions_of_every_shell_name_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = tailback(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).expect("text");
        for verb in program().verbs(&[]) {
            assert!(script.contains(&verb), "{shell} lacks {verb}");
        }
    }
    let dir = TempDir::new("completions");
    let script = dir.file("tailback.bash", tailback(&["completions", "bash"]).stdout);
    // What bash itself completes after `tailback mon`.
    let ask = format!(
        "source {script}; COMP_WORDS=(tailback mon); COMP_CWORD=1; _tailback tailback mon tailback; echo ${{COMPREPLY[@]}}"
    );
    let output = Command::new("bash")
        .args(["-c", &ask])
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "monitor", "{output:?}");
}

#[test]
fn every_verb_has_a_man_page() {
    let dir = TempDir::new("man");
    let to = dir.at("man1");
    assert!(tailback(&["man", &to]).status.success());
    let all = program().all_verbs();
    for words in &all {
        let name = format!("tailback-{}.1", words.join("-"));
        let page = std::fs::read_to_string(Path::new(&to).join(&name));
        let page = page.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            page.contains(".SH NAME") && page.contains(".SH OPTIONS"),
            "{name}"
        );
    }
    let pages = std::fs::read_dir(&to).expect("pages").count();
    assert_eq!(pages, all.len() + 1);
}
