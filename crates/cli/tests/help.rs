//! `--help` of every verb beside its snapshot in `tests/help`. `HELP=write cargo test --release -p tailback --test
//! help` writes them anew: read each change before you commit it.

use std::path::PathBuf;
use std::process::Command;
use testkit::Program;

/// First words that make a help text depend on the one before it, or put a clause where a noun belongs.
const BAD: [&str; 16] = [
    "And", "But", "How", "If", "It", "Its", "Nobody", "Of", "So", "That", "What", "When", "Where",
    "Whether", "Which", "Whoever",
];

/// Help of a verb, given as its words, for a terminal of any width.
fn help(verb: &[String]) -> String {
    help_in(verb, 100)
}

fn help_in(verb: &[String], width: usize) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(verb)
        .arg("--help")
        .env("COLUMNS", width.to_string())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{verb:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Help of the program, of every verb, and of every verb's verbs, by the name of its snapshot.
fn all() -> Vec<(String, String)> {
    let verbs = Program::new(env!("CARGO_BIN_EXE_tailback")).all_verbs();
    let named = |verb: Vec<String>| {
        let name = [vec!["tailback".to_owned()], verb.clone()].concat();
        (name.join("-"), help(&verb))
    };
    let mut found: Vec<_> = [Vec::new()].into_iter().chain(verbs).map(named).collect();
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
    let options = help.split("\nExamples:").next().unwrap_or_default();
    let mut lines = options.lines().peekable();
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

/// Commands under `Examples:`.
fn examples(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Examples:")
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .collect()
}

/// A command that is wrapped in the middle fails when it is copied; the shell joins lines only behind a backslash.
#[test]
fn examples_are_whole_commands_in_a_narrow_terminal() {
    let mut seen = 0;
    let verbs = Program::new(env!("CARGO_BIN_EXE_tailback")).all_verbs();
    for verb in [Vec::new()].into_iter().chain(verbs) {
        let (name, wide) = (verb.join(" "), help(&verb));
        let narrow = help_in(&verb, 60);
        assert_eq!(examples(&narrow), examples(&wide), "{name}");
        let mut goes_on = false;
        for line in examples(&wide) {
            let starts = ["  tailback ", "  sudo tailback ", "  tcpdump "];
            let is_command =
                starts.iter().any(|s| line.starts_with(s)) || line == "  tailback serve";
            assert!(is_command || goes_on, "{name}: {line}");
            goes_on = line.ends_with('\\');
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} lines of examples");
}

/// Sources of the program, without tests and comments.
fn sources() -> Vec<(PathBuf, String)> {
    let mut open = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default();
            if path.is_dir() && !["tests", "benches", "target", "web", "page"].contains(&name) {
                open.push(path);
            } else if name.ends_with(".rs") && !["converted.rs", "build.rs"].contains(&name) {
                let text = std::fs::read_to_string(&path).expect("text");
                let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
                found.push((path, code.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    found
}

/// Options of other programs that messages name.
const FOREIGN: [&str; 5] = [
    "--cap-add",
    "--location-get",
    "--security-opt",
    "--signal-get",
    "--system",
];

/// Messages name only options that exist.
#[test]
fn every_option_that_a_message_names_exists() {
    let help: String = all().into_iter().map(|(_, text)| text).collect();
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let named = |text: &str| -> Vec<String> {
        let after = text.match_indices("--").filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "-_(".contains(c))
        });
        let names = after.map(|(at, _)| {
            let rest = &text[at + 2..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            format!("--{}", rest[..end].trim_end_matches('-'))
        });
        names.filter(|n| n.len() > 3).collect()
    };
    let known = named(&help);
    let mut seen = 0;
    for (path, code) in sources() {
        for option in code.split('"').skip(1).step_by(2).flat_map(named) {
            seen += 1;
            let is_known = known.contains(&option) || FOREIGN.contains(&option.as_str());
            assert!(is_known, "{} names {option}", path.display());
        }
    }
    assert!(seen > 50, "{seen} options in messages");
}
