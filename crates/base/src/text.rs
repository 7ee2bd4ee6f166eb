//! Escaping of text from outside before it is shown: names in recordings, server refusals, lines of imported files.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True for terminal control characters, and for marks that reverse or hide the text around them.
fn commands(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Writes out every terminal control character, such as `\u{1b}`, including line breaks and tabs.
pub fn clean(text: &str) -> Cow<'_, str> {
    escape(text, commands)
}

/// Writes out the control characters of a text of several lines; line breaks and tabs stay.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| commands(c) && c != '\n' && c != '\t')
}

fn escape(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bad(c) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_terminals_are_written_out_and_words_stay() {
        for plain in ["", "home ADSL", "Zürich 東京 → 5 ms", "a\\b"] {
            assert!(matches!(clean(plain), Cow::Borrowed(t) if t == plain));
        }
        assert_eq!(clean("a\x1b[31mb\n"), "a\\u{1b}[31mb\\u{a}");
        assert_eq!(clean_lines("a\tb\n\u{9b}c"), "a\tb\n\\u{9b}c");
        assert_eq!(clean("user\u{202e}txt.exe"), "user\\u{202e}txt.exe");
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = format!("x{c}y");
            assert!(clean(&text).chars().all(|c| !c.is_control()), "{c:?}");
        }
    }
}
