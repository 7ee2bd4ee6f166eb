//! `tailback serve keys`: the file of keys of a server.

use super::{print, usage};
use crate::Outcome;
use anyhow::Context;
use live::serve::keys::read;
use measure::keys::{KeyFile, Line, Secret, random_line, stretched_line};
use std::io::{BufRead, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    tailback serve keys add anna --keys FILE\n  \
    tailback serve keys add bert --passphrase --keys FILE\n  \
    tailback serve keys list --keys FILE\n  \
    tailback serve keys remove anna --keys FILE\n\n\
    `add` prints the line for the user's --key-file. `remove` ends the user's sessions within a second. Two keys of one \
    user may be valid at once: add the new one, hand it out, then remove the old one by its fingerprint.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args)]
struct File {
    /// File of keys, made with mode 0600 if there is none
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Add a key, and print the line for the client's --key-file
    Add {
        /// Name of the user: 1 to 32 letters, digits, dots, dashes or underscores
        name: String,
        /// Last day on which the key is valid (UTC), such as 2027-01-31 [default: no end]
        #[arg(long, value_name = "DATE")]
        until: Option<String>,
        /// Read a passphrase from standard input instead of making a random key; it is stored stretched
        #[arg(long)]
        passphrase: bool,
        #[command(flatten)]
        file: File,
    },
    /// List users and fingerprints of their keys
    List {
        #[command(flatten)]
        file: File,
    },
    /// Remove the keys of a user
    Remove {
        /// Name of the user
        name: String,
        /// Remove this key only, as `list` shows it
        #[arg(long)]
        fingerprint: Option<String>,
        #[command(flatten)]
        file: File,
    },
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.command {
        Command::Add {
            name,
            until,
            passphrase,
            file,
        } => add(&file.keys, &name, until.as_deref(), passphrase)?,
        Command::List { file } => list(&file.keys)?,
        Command::Remove {
            name,
            fingerprint,
            file,
        } => remove(&file.keys, &name, fingerprint.as_deref())?,
    }
    Ok(Outcome::Done)
}

/// Text and content of the file; both are empty if there is no file.
fn open(path: &Path) -> anyhow::Result<(String, KeyFile)> {
    if !path.exists() {
        return Ok((String::new(), KeyFile::default()));
    }
    let file = read(path).map_err(|e| usage(e.to_string()))?;
    let text = std::fs::read_to_string(path)?;
    Ok((text, file))
}

fn add(path: &Path, name: &str, until: Option<&str>, passphrase: bool) -> anyhow::Result<()> {
    let (mut text, file) = open(path)?;
    let (line, for_client) = if passphrase {
        let mut typed = String::new();
        std::io::stdin().lock().read_line(&mut typed)?;
        let typed = typed.trim_end_matches(['\n', '\r']);
        let salt = match file.salt {
            Some(salt) => salt,
            None => {
                let salt = live::probe::host::random::<16>()?;
                let hex: String = salt.iter().map(|b| format!("{b:02x}")).collect();
                text = format!("@salt {hex}\n{text}");
                salt
            }
        };
        let line = stretched_line(name, typed, &salt).map_err(usage)?;
        (line, format!("{name} \"{typed}\""))
    } else {
        let line = random_line(name, &live::probe::host::random::<32>()?).map_err(usage)?;
        (line.clone(), line)
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text += &line;
    if let Some(date) = until {
        text += &format!(" until={date}");
    }
    text.push('\n');
    KeyFile::parse(&text).map_err(|e| usage(format!("{}, {e}", path.display())))?;
    write(path, &text)?;
    eprintln!(
        "added to {}. The line for {name}'s --key-file:",
        path.display()
    );
    print(&format!("{for_client}\n"))
}

/// Fingerprint of a key for `list`: it tells keys apart and gives no access.
fn fingerprint(line: &Line) -> String {
    match &line.secret {
        Secret::Key(key) => key
            .fingerprint()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect(),
        Secret::Passphrase(_) => "passphrase".into(),
    }
}

fn list(path: &Path) -> anyhow::Result<()> {
    let file = read(path).map_err(|e| usage(e.to_string()))?;
    let mut text = String::new();
    for line in &file.lines {
        let until = match line.until.map(jiff::Timestamp::from_second) {
            Some(Ok(end)) => format!(" until {}", end.strftime("%Y-%m-%d")),
            _ => String::new(),
        };
        text += &format!("{:32} {}{until}\n", line.name, fingerprint(line));
    }
    print(&text)
}

fn remove(path: &Path, name: &str, only: Option<&str>) -> anyhow::Result<()> {
    let (text, file) = open(path)?;
    let goes = |line: &Line| line.name == name && only.is_none_or(|f| f == fingerprint(line));
    let count = file.lines.iter().filter(|l| goes(l)).count();
    if count == 0 {
        let names: Vec<&str> = file.lines.iter().map(|l| &*l.name).collect();
        return Err(usage(format!(
            "{} has no such key. It has keys of: {}",
            path.display(),
            names.join(", ")
        )));
    }
    let mut lines = file.lines.iter();
    let kept = text.lines().filter(|text| {
        let text = text.trim();
        let is_key = !text.is_empty() && !text.starts_with(['#', '@']);
        !is_key || !lines.next().is_some_and(goes)
    });
    let kept: String = kept.map(|l| format!("{l}\n")).collect();
    write(path, &kept)?;
    eprintln!("{} of {name} removed", super::counted(count as u64, "key"));
    Ok(())
}

/// Replaces the file as a whole. It stays readable by its owner only.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let random: String = live::probe::host::random::<8>()?
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let beside = folder.join(format!(".keys-{random}"));
    let failed = || format!("cannot write {}", path.display());
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .with_context(failed)?;
    let done = (|| {
        // The server runs as another user than the one who adds keys.
        if let Ok(about) = std::fs::metadata(path).or_else(|_| std::fs::metadata(folder)) {
            let _ = std::os::unix::fs::fchown(&file, Some(about.uid()), Some(about.gid()));
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    })();
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done.with_context(failed)
}
