//! `tailback/verbs.py` beside the command's own definitions, from which it is made. `HELP=write cargo test --release
//! --workspace --test verbs_py` writes it anew.

use base::{BitsPerSec, Bytes, Duration};
use clap::{Arg, ArgAction, Command};
use std::any::TypeId;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HEAD: &str = r#""""Verbs of the command `tailback` as functions, with the same names, defaults and figures.

Made from the command's definitions by `cargo test --test verbs_py` with HELP=write; do not edit.
"""

from __future__ import annotations

from ._answer import Answer
from ._call import call as _call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from ._types import Duration, Pairs, Path, Progress, Time
"#;

/// Words that Python, or the functions' own annotations, need for something else.
const TAKEN: &[&str] = &[
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
    "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda",
    "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "list",
];
/// Options of every verb that are not for a library.
const LEFT_OUT: [&str; 5] = ["json", "help", "version", "quiet", "plain"];

/// Name of a verb or an argument in Python.
fn name(of: &str) -> String {
    let name = of.replace('-', "_");
    match TAKEN.contains(&of) {
        true => name + "_",
        false => name,
    }
}

/// Annotation of one value of an argument.
fn value_type(arg: &Arg) -> String {
    let choices = arg.get_possible_values();
    if !choices.is_empty() {
        let names = choices.iter().map(|c| format!("{:?}", c.get_name()));
        return format!("Literal[{}]", names.collect::<Vec<_>>().join(", "));
    }
    let parser = arg.get_value_parser().type_id();
    let is = |id: TypeId| parser == id;
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<i64>(),
        TypeId::of::<usize>(),
    ];
    let shown = value_name(arg);
    if numbers.into_iter().any(is) {
        "int"
    } else if is(TypeId::of::<f64>()) {
        "float"
    } else if is(TypeId::of::<PathBuf>()) {
        "Path"
    } else if is(TypeId::of::<Duration>()) {
        "Duration"
    } else if is(TypeId::of::<BitsPerSec>()) || is(TypeId::of::<Bytes>()) {
        "str"
    } else if shown == "TIME" {
        "Time"
    } else if shown.starts_with("KEY=") || shown.starts_with("LINK=") {
        "Pairs"
    } else {
        "str"
    }
    .to_owned()
}

fn value_name(arg: &Arg) -> &str {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or("", |n| n.as_str())
}

fn is_repeated(arg: &Arg) -> bool {
    let several = arg.get_num_args().is_some_and(|n| n.max_values() > 1);
    matches!(arg.get_action(), ArgAction::Append) || several || arg.get_value_delimiter().is_some()
}

/// Parameter of a function: annotation and default.
fn parameter(arg: &Arg) -> String {
    let of = value_type(arg);
    let name = name(arg.get_long().unwrap_or(arg.get_id().as_str()));
    if !arg.get_action().takes_values() {
        return format!("{name}: bool = False");
    }
    let optional_value = arg.get_num_args().is_some_and(|n| n.min_values() == 0);
    let of = match (is_repeated(arg), optional_value) {
        (true, _) if of == "Pairs" => of,
        (true, _) => format!("Iterable[{of}] | {of}"),
        (_, true) => format!("{of} | bool"),
        _ => of,
    };
    match arg.is_required_set() && !arg.is_positional() {
        true => format!("{name}: {of}"),
        false => format!("{name}: {of} | None = None"),
    }
}

/// Parameters without names: those that are needed, those that may be left out, and one that takes the rest.
fn positional(arg: &Arg) -> String {
    let name = name(arg.get_id().as_str());
    match (is_repeated(arg), arg.is_required_set()) {
        (true, _) => format!("*{name}: {}", value_type(arg)),
        (_, true) => format!("{name}: {}", value_type(arg)),
        _ => format!("{name}: {} | None = None", value_type(arg)),
    }
}

/// Options with which a verb prints something else than JSON; none if it has no JSON.
fn not_json(command: &Command) -> Option<Vec<String>> {
    let json = command.get_arguments().find(|a| a.get_id() == "json")?;
    let excluded = |arg: &&Arg| {
        let of_arg = command.get_arg_conflicts_with(arg);
        of_arg.iter().any(|a| a.get_id() == "json")
    };
    let mut names: Vec<String> = command
        .get_arguments()
        .filter(excluded)
        .chain(command.get_arg_conflicts_with(json))
        .filter_map(|a| a.get_long().map(name))
        .collect();
    names.sort();
    names.dedup();
    Some(names)
}

fn tuple(words: &[String]) -> String {
    let each = words.iter().map(|w| format!("{w:?}"));
    let comma = if words.len() == 1 { "," } else { "" };
    format!("({}{comma})", each.collect::<Vec<_>>().join(", "))
}

/// Sentence of an argument's help on lines of the docstring.
fn told(out: &mut String, name: &str, help: &str) {
    const WIDTH: usize = 112;
    let text = format!("{name}: {}", help.replace('\\', "/").replace('\n', " "));
    let mut line = String::from("       ");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from("           ");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(out, "{line}");
}

/// Function of a verb.
fn function(out: &mut String, words: &[String], command: &Command) {
    let is_left_out = |a: &Arg| LEFT_OUT.contains(&a.get_id().as_str()) || a.is_hide_set();
    let all: Vec<&Arg> = command
        .get_arguments()
        .filter(|a| !is_left_out(a))
        .collect();
    let (by_place, mut by_name): (Vec<&Arg>, Vec<&Arg>) = all
        .into_iter()
        .partition(|a| a.is_positional() && !a.is_last_set());
    by_name.sort_by_key(|a| !a.is_required_set());
    let verb = words.join("_");
    let _ = writeln!(out, "\n\ndef {}(", name(&verb));
    for arg in &by_place {
        let _ = writeln!(out, "    {},", positional(arg));
    }
    if !by_place.last().is_some_and(|a| is_repeated(a)) {
        out.push_str("    *,\n");
    }
    for arg in &by_name {
        let _ = writeln!(out, "    {},", parameter(arg));
    }
    out.push_str("    progress: Progress = None,\n) -> Answer:\n");
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let _ = writeln!(
        out,
        "    \"\"\"{}.\n\n    Args:",
        about.trim_end_matches('.').replace('\n', " ")
    );
    for arg in by_place.iter().chain(&by_name) {
        let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        if let [default] = arg.get_default_values() {
            let _ = write!(help, " [default: {}]", default.to_string_lossy());
        }
        told(
            out,
            &name(arg.get_long().unwrap_or(arg.get_id().as_str())),
            &help,
        );
    }
    told(
        out,
        "progress",
        "True for a bar, or a function that takes a share from 0 to 1 (or None) and a text",
    );
    out.push_str("    \"\"\"\n    return _call(\n");
    let _ = writeln!(out, "        {},", tuple(words));
    let pairs = |args: &[&Arg]| {
        let pair = |a: &&Arg| {
            let name = name(a.get_long().unwrap_or(a.get_id().as_str()));
            format!("{name:?}: {name}")
        };
        args.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(out, "        {{{}}},", pairs(&by_place));
    let _ = writeln!(out, "        {{{}}},", pairs(&by_name));
    let json = not_json(command).map_or("None".to_owned(), |names| tuple(&names));
    let _ = writeln!(
        out,
        "        not_json={json},\n        progress=progress,\n    )"
    );
}

/// Functions of a command and of its own verbs.
fn functions(out: &mut String, words: &[String], command: &Command, names: &mut Vec<String>) {
    if !command.is_subcommand_required_set() && !words.is_empty() {
        function(out, words, command);
        names.push(name(&words.join("_")));
    }
    let verbs = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help");
    for verb in verbs {
        functions(
            out,
            &[words, &[verb.get_name().to_owned()]].concat(),
            verb,
            names,
        );
    }
}

#[test]
fn the_functions_are_those_of_the_commands_definitions() {
    let mut command = cli::command();
    command.build();
    let (mut body, mut names) = (String::new(), Vec::new());
    functions(&mut body, &[], &command, &mut names);
    assert!(names.len() > 20, "{names:?}");
    names.sort();
    // `_sim.py` has the package's own `sim`, with a seed and tables.
    names.retain(|name| name != "sim");
    let listed: String = names.iter().map(|n| format!("    {n:?},\n")).collect();
    let text = format!("{HEAD}\n__all__ = [\n{listed}]\n{body}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tailback/verbs.py");
    if std::env::var_os("HELP").is_some_and(|v| v == "write") {
        std::fs::write(&file, text).expect("verbs.py can be written");
        return;
    }
    let kept = std::fs::read_to_string(&file).expect("verbs.py");
    assert!(
        kept == text,
        "verbs.py is not what the command defines; HELP=write writes it"
    );
}
