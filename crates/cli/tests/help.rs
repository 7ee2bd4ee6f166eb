//! `--help` of every verb beside its snapshot in `tests/help`. `HELP=write cargo test --release -p tailback-cli --test
//! help` writes them anew: read each change before you commit it.

use std::path::PathBuf;
use std::process::Command;

/// First words that make a help text depend on the one before it, or put a clause where a noun belongs.
const BAD: [&str; 16] = [
    "And", "But", "How", "If", "It", "Its", "Nobody", "Of", "So", "That", "What", "When", "Where",
    "Whether", "Which", "Whoever",
];

/// Help of a verb, given as its words, for a terminal of any width.
fn help(verb: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(verb)
        .arg("--help")
        .env("COLUMNS", "100")
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{verb:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Verbs that a help lists under `Commands:`.
fn verbs(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .map(str::to_owned)
        .collect()
}

/// Help of the program, of every verb, and of every verb's verbs, by the name of its snapshot.
fn all() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(verb) = open.pop() {
        let text = help(&verb);
        for name in verbs(&text) {
            let mut inner = verb.clone();
            inner.push(name);
            open.push(inner);
        }
        let name = ["tailback"]
            .into_iter()
            .chain(verb.iter().map(String::as_str));
        found.push((name.collect::<Vec<_>>().join("-"), text));
    }
    found.sort();
    found
}

#[test]
fn the_help_of_every_verb_is_its_snapshot() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let all = all();
    assert!(all.len() > 15, "{} helps", all.len());
    if std::env::var_os("HELP").is_some_and(|v| v == "write") {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (name, text) in &all {
            std::fs::write(folder.join(format!("{name}.txt")), text).expect("a snapshot");
        }
        return;
    }
    let mut kept: Vec<String> = std::fs::read_dir(&folder)
        .expect("snapshots")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    kept.sort();
    let mut wanted: Vec<String> = all.iter().map(|(name, _)| format!("{name}.txt")).collect();
    wanted.sort();
    assert_eq!(kept, wanted, "snapshots and verbs; HELP=write writes them");
    for (name, text) in &all {
        let snapshot =
            std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("a snapshot");
        assert!(
            snapshot == *text,
            "the help of {name} is not its snapshot (HELP=write writes it):\n{text}"
        );
    }
}

/// Text of each option and argument of a help: beside its name, or on the line below.
fn texts(help: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let name = line.trim_start();
        let is_option = name.starts_with('-') && !name.starts_with("- ");
        if line.len() == name.len() || !(is_option || name.starts_with('<')) {
            continue;
        }
        let below = lines.peek().map_or("", |next| next.trim());
        found.push(
            name.split_once("  ")
                .map_or((name, below), |(name, text)| (name, text.trim())),
        );
    }
    found
}

#[test]
fn every_help_text_stands_alone() {
    let mut faults = Vec::new();
    for (verb, help) in all() {
        for (name, text) in texts(&help) {
            let first = text.split_whitespace().next().unwrap_or("");
            if first.is_empty() || BAD.contains(&first) {
                faults.push(format!("{verb}: {name}: {text}"));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}
