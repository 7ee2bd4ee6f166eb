//! Ways in which a program that runs on tells a change to people: a command, a webhook, a mail.

use crate::usage;
use serde_json::Value;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Largest number of commands that run at a time.
const MOST: usize = 8;

/// Recipients of changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ways {
    /// Command for `sh`.
    pub command: Option<String>,
    /// Address to which JSON is posted, http:// or https://.
    pub webhook: Option<String>,
    /// Mail address, for sendmail(8).
    pub mail: Option<String>,
}

impl Ways {
    /// Checks the addresses.
    ///
    /// # Errors
    /// A webhook that is no web address, a mail address that is none.
    pub fn check(&self) -> anyhow::Result<()> {
        let is_plain = |text: &str| !text.contains(|c: char| c.is_whitespace() || c.is_control());
        if let Some(url) = &self.webhook {
            let is_web = url.starts_with("http://") || url.starts_with("https://");
            if !is_web || !is_plain(url) {
                return Err(usage(format!(
                    "--webhook {url}: give an http:// or https:// address"
                )));
            }
        }
        if let Some(to) = &self.mail {
            let is_address = to
                .split_once('@')
                .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
            if !is_address || !is_plain(to) || to.starts_with('-') {
                return Err(usage(format!(
                    "--mail {to}: give an address such as noc@example.org"
                )));
            }
        }
        Ok(())
    }
}

/// Change as it is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Whom it is about; for messages.
    pub about: String,
    /// Variables of the command's environment.
    pub environment: Vec<(&'static str, String)>,
    /// Body for the webhook.
    pub json: Value,
    /// Subject and text of the mail.
    pub subject: String,
    /// Text of the mail.
    pub text: String,
}

/// Runner of the programs that tell changes.
pub struct Teller {
    to: Ways,
    /// Option that names the command.
    option: &'static str,
    running: Vec<(&'static str, Child)>,
}

impl Teller {
    /// Runner for these ways; `option` names the command in messages.
    pub fn new(to: &Ways, option: &'static str) -> Teller {
        Teller {
            to: to.clone(),
            option,
            running: Vec::new(),
        }
    }

    /// Starts the programs for each change, without waiting for them. One that failed is reported.
    pub fn tell(&mut self, changes: &[Change], warn: &mut dyn FnMut(&str)) {
        self.running
            .retain_mut(|(option, child)| match child.try_wait() {
                Ok(None) => true,
                Ok(Some(status)) if !status.success() => {
                    warn(&format!(
                        "an alert was not told: {option} ended with {status}"
                    ));
                    false
                }
                _ => false,
            });
        for change in changes {
            for (option, command, input) in self.programs(change) {
                if self.running.len() >= MOST {
                    let about = &change.about;
                    warn(&format!(
                        "{MOST} programs of alerts still run: {option} was not started for {about}"
                    ));
                    continue;
                }
                match start(command, input) {
                    Ok(child) => self.running.push((option, child)),
                    Err(why) => warn(&format!("cannot start the program of {option}: {why}")),
                }
            }
        }
    }

    /// Programs for a change: the option that asks for each, and its standard input.
    fn programs(&self, change: &Change) -> Vec<(&'static str, Command, Option<String>)> {
        let mut all = Vec::new();
        if let Some(line) = &self.to.command {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            for (name, value) in &change.environment {
                command.env(name, value);
            }
            all.push((self.option, command, None));
        }
        if let Some(url) = &self.to.webhook {
            let mut command = Command::new("curl");
            command
                .args(["-sSf", "-m", "20", "-H", "Content-Type: application/json"])
                .args(["-d", "@-", "-o", "/dev/null", url]);
            all.push(("--webhook", command, Some(change.json.to_string())));
        }
        if let Some(to) = &self.to.mail {
            let mut command = Command::new("sendmail");
            command.args(["-i", "--", to]).env("PATH", mail_path());
            all.push(("--mail", command, Some(letter(to, change))));
        }
        all
    }
}

fn letter(to: &str, change: &Change) -> String {
    // A header ends at a line's end: names are cleaned of those.
    let [subject, text] = [&change.subject, &change.text].map(|t| base::text::clean(t));
    format!(
        "To: {to}\nSubject: {subject}\nAuto-Submitted: auto-generated\n\
         Content-Type: text/plain; charset=utf-8\n\n{text}\n"
    )
}

/// Starts a program with this standard input, and without output.
fn start(mut command: Command, input: Option<String>) -> std::io::Result<Child> {
    let stdin = match &input {
        Some(_) => Stdio::piped(),
        None => Stdio::null(),
    };
    let mut child = command.stdin(stdin).stdout(Stdio::null()).spawn()?;
    if let (Some(text), Some(mut to)) = (input, child.stdin.take()) {
        // Shorter than a pipe's buffer, so this never waits. A program that reads nothing fails by itself.
        let _ = to.write_all(text.as_bytes());
    }
    Ok(child)
}

/// Search path with the directories of system programs, in which Debian has sendmail.
fn mail_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/usr/lib");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_line_ends_adds_no_header() {
        let change = Change {
            about: "a".into(),
            environment: Vec::new(),
            json: Value::Null,
            subject: "tailback on h\nost: a\r\nBcc: b@example.org is down".into(),
            text: "a\nb".into(),
        };
        let letter = letter("noc@example.org", &change);
        let head = letter.split("\n\n").next().expect("a head");
        assert_eq!(head.lines().count(), 4, "{letter}");
    }
}
