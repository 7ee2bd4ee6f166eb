//! Commands that switch control on and off, for `tailback prove`: each block has control or none.

use crate::usage;
use std::ffi::OsString;

/// Shell commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    pub on: String,
    pub off: String,
}

/// Commands that start and stop control of an interface. `run` is the program with the arguments of `control run`, without
/// the interface.
///
/// # Errors
/// Control cannot act on the interface, or another run holds it: nothing is switched then.
pub fn switch(wan: &str, run: &[OsString]) -> anyhow::Result<Switch> {
    let place = super::plan(wan)?;
    if !place.blockers.is_empty() {
        anyhow::bail!("{}", place.blockers.join("; "));
    }
    let Some(program) = run.first() else {
        return Err(usage("the program of the run is missing"));
    };
    let words = run.iter().map(|word| quoted(&word.to_string_lossy()));
    let run = words.collect::<Vec<_>>().join(" ");
    let (program, wan) = (quoted(&program.to_string_lossy()), quoted(wan));
    let asked = |what: &str| format!("{program} control {what} --wan {wan} >/dev/null 2>&1");
    let (status, stop) = (asked("status"), asked("stop"));
    Ok(Switch {
        // It ends by itself if it cannot act; its message goes to the terminal.
        on: format!(
            "{run} --wan {wan} --apply >/dev/null & run=$!; \
             until {status}; do kill -0 $run || exit 1; sleep 0.1; done"
        ),
        off: format!("{stop}; ! {status}"),
    })
}

/// Word as the shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_reads_a_quoted_word_as_it_was() {
        for word in ["eth0", "a b", "it's", "$(x) `y` \"z\" \\", "'"] {
            let script = format!("printf %s {}", quoted(word));
            let out = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            assert_eq!(out.expect("sh runs").stdout, word.as_bytes(), "{script}");
        }
    }
}
