//! Size and abilities of the user's terminal.

use crate::face::face;
use report::terminal::Style;
use std::io::IsTerminal;
#[cfg(unix)]
use std::os::fd::AsFd as AsStream;
#[cfg(windows)]
use std::os::windows::io::AsHandle as AsStream;
use terminal_size::terminal_size_of;

/// Width of text that goes to a file or another program, columns.
const NO_TERMINAL: usize = 100;
/// Widths that a layout may have, columns.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=140;

/// Style of standard output.
pub fn stdout_style() -> Style {
    style(&std::io::stdout())
}

/// Style of standard error.
pub fn stderr_style() -> Style {
    style(&std::io::stderr())
}

/// True if standard error is a terminal whose lines can be drawn again.
pub fn redraws() -> bool {
    std::io::stderr().is_terminal() && !is_dumb()
}

/// True if the terminal knows no commands, such as the shell of an editor.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|t| t == "dumb")
}

/// Width of tables: that of the terminal. Tables for another program are not folded, unless COLUMNS is set.
pub fn table_width() -> usize {
    let terminal = std::io::stdout().is_terminal() || set_columns().is_some();
    match terminal && face().is_none() {
        true => stdout_style().width,
        false => usize::MAX,
    }
}

/// Height of the terminal behind standard error, lines.
pub fn stderr_height() -> usize {
    const USUAL: usize = 24;
    let size = terminal_size_of(std::io::stderr());
    size.map_or(USUAL, |(_, h)| usize::from(h.0)).max(2)
}

fn style(stream: &(impl AsStream + IsTerminal)) -> Style {
    if face().is_some() {
        return Style {
            width: NO_TERMINAL,
            colour: false,
            unicode: true,
        };
    }
    let asked = || terminal_size_of(stream).map(|(w, _)| usize::from(w.0));
    let width = set_columns()
        .or_else(asked)
        .filter(|w| *w > 0)
        .unwrap_or(NO_TERMINAL);
    Style {
        width: width.clamp(*WIDTHS.start(), *WIDTHS.end()),
        colour: stream.is_terminal() && !is_dumb() && std::env::var_os("NO_COLOR").is_none(),
        unicode: is_unicode(["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).ok())),
    }
}

/// Width that the user set, which precedes that of the terminal.
fn set_columns() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok()?;
    set.parse().ok().filter(|w| *w > 0)
}

/// True unless the locale has another character set. The first variable that is not empty decides.
fn is_unicode(locale: [Option<String>; 3]) -> bool {
    let named = locale.into_iter().flatten().find(|name| !name.is_empty());
    let Some(named) = named else { return true };
    let plain = named.split('@').next().unwrap_or_default();
    match plain.split_once('.') {
        Some((_, set)) => set.replace('-', "").eq_ignore_ascii_case("utf8"),
        None => !matches!(plain, "C" | "POSIX"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_tells_the_character_set() {
        let of = |all: &str, ctype: &str, lang: &str| {
            is_unicode([all, ctype, lang].map(|v| Some(v.to_owned())))
        };
        assert!(is_unicode([None, None, None]));
        assert!(
            of("", "", "en_GB.UTF-8") && of("C.UTF-8", "C", "C") && of("", "de_DE.utf8@euro", "C")
        );
        assert!(!of("C", "", "en_GB.UTF-8") && !of("", "POSIX", "en_GB.UTF-8"));
        assert!(!of("", "", "de_DE.ISO-8859-1"));
    }
}
