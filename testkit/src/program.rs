//! Runs of the program as a person or a script starts it.

use crate::skip;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Program under test: `Program::new(env!("CARGO_BIN_EXE_tailback"))`.
#[derive(Clone)]
pub struct Program {
    binary: PathBuf,
    directory: Option<PathBuf>,
}

impl Program {
    /// Program at this path.
    pub fn new(binary: impl Into<PathBuf>) -> Program {
        Program {
            binary: binary.into(),
            directory: None,
        }
    }

    /// Program that runs in this directory.
    pub fn within(&self, directory: &Path) -> Program {
        Program {
            binary: self.binary.clone(),
            directory: Some(directory.to_owned()),
        }
    }

    /// Command with these arguments, no input, and no key from the environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(args)
            .env_remove("TAILBACK_KEY")
            .env_remove("TAILBACK_HUB_TOKEN")
            .stdin(Stdio::null());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    /// Runs it and reads its answer.
    ///
    /// # Panics
    /// If it fails, or prints something else than JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let out = self.run(args);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {told}");
        serde_json::from_slice(&out.stdout).expect("it prints JSON")
    }

    /// Verbs of the program, or of a verb, that its help lists.
    ///
    /// # Panics
    /// If there is no such help.
    #[track_caller]
    pub fn verbs(&self, words: &[&str]) -> Vec<String> {
        let out = self.run(&[words, &["--help"]].concat());
        let help = String::from_utf8(out.stdout).expect("help is text");
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

    /// Every verb, and every verb of a verb, as its words.
    ///
    /// # Panics
    /// The same as [`Program::verbs`].
    #[track_caller]
    pub fn all_verbs(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        let mut open: Vec<Vec<String>> = vec![Vec::new()];
        while let Some(words) = open.pop() {
            let given: Vec<&str> = words.iter().map(String::as_str).collect();
            for verb in self.verbs(&given) {
                open.push([words.clone(), vec![verb]].concat());
            }
            if !words.is_empty() {
                found.push(words);
            }
        }
        found.sort();
        found
    }

    /// True if this host lets the program emulate a link; otherwise the test is skipped.
    ///
    /// # Panics
    /// If a skip is a failure here.
    #[track_caller]
    pub fn can_emulate(&self) -> bool {
        let out = self.run(&["emulate", "--quiet", "fiber", "--", "true"]);
        if !out.status.success() {
            skip(String::from_utf8_lossy(&out.stderr).trim());
        }
        out.status.success()
    }
}
