//! Output of this program to a terminal. Foreign strings (file names, recordings, captures, servers) may hold terminal
//! commands: they are escaped here, once for all verbs.

use crate::Face;
use base::text::{clean_json, clean_lines, clean_page};
use std::io::{self, Write};
use std::sync::Arc;

/// Writes a line to standard error. A terminal that is gone is no failure.
macro_rules! eprintln {
    () => { $crate::say::error("\n") };
    ($($arg:tt)*) => { $crate::say::error(&format!("{}\n", format_args!($($arg)*))) };
}

/// Writes to standard error, for progress and warnings. The colours of [`clean_page`] stay.
pub fn error(text: &str) {
    if let Some(face) = crate::face::face() {
        face.say(&clean_lines(text));
        return;
    }
    let _ = io::stderr().write_all(clean_page(text).as_bytes());
}

/// Writes data to standard output: a page, or a JSON value.
pub fn print(text: &str) -> anyhow::Result<()> {
    let clean = match text.starts_with(['{', '[']) {
        true => clean_json(text),
        false => clean_page(text),
    };
    let mut out = data();
    out.write_all(clean.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Destination of data: standard output, or this thread's face.
pub fn data() -> Box<dyn Write> {
    match crate::face::face() {
        Some(face) => Box::new(Printed(face)),
        None => Box::new(io::stdout().lock()),
    }
}

/// Data for a face.
struct Printed(Arc<dyn Face>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.print(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output for a JSON value that is written piece by piece.
pub struct Json<W: Write> {
    to: W,
    /// Beginning of a character whose rest is still to come.
    part: Vec<u8>,
}

impl<W: Write> Json<W> {
    pub fn new(to: W) -> Json<W> {
        Json {
            to,
            part: Vec::new(),
        }
    }
}

impl<W: Write> Write for Json<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.part) {
            Ok(text) => text.len(),
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            Err(e) => return Err(io::Error::new(io::ErrorKind::InvalidData, e)),
        };
        let rest = self.part.split_off(whole);
        let text = std::mem::replace(&mut self.part, rest);
        let text = String::from_utf8_lossy(&text);
        self.to.write_all(clean_json(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_comes_in_bits_is_cleaned_and_keeps_its_value() {
        let value = serde_json::json!({"name": "a\u{9b}2Jb\u{202e}\u{e0041}é\n", "n": [1, 2]});
        let text = serde_json::to_string_pretty(&value).expect("plain data");
        for step in 1..7 {
            let mut json = Json::new(Vec::new());
            for bytes in text.as_bytes().chunks(step) {
                json.write_all(bytes).expect("to memory");
            }
            let shown = String::from_utf8(json.to).expect("text");
            assert!(
                !shown.contains(['\u{9b}', '\u{202e}', '\u{e0041}']),
                "{shown}"
            );
            let again: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
            assert_eq!(again, value);
        }
    }
}
