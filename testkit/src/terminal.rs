//! Runs of the program in a terminal of a given size.

use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::Read;
use std::process::{Command, ExitStatus};

/// Runs a command in a terminal of this size, without COLUMNS. Returns its status, and all that it wrote to standard
/// output and standard error; lines end in LF.
///
/// # Panics
/// If there is no terminal, or the command cannot be started.
pub fn in_terminal(mut command: Command, columns: u16, rows: u16) -> (ExitStatus, String) {
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    in_terminal_as(command, columns, rows)
}

/// Does the same with the command's own TERM and NO_COLOR.
///
/// # Panics
/// The same as `in_terminal`.
pub fn in_terminal_as(mut command: Command, columns: u16, rows: u16) -> (ExitStatus, String) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let ends = openpty(Some(&size), None).expect("a terminal");
    let slave = File::from(ends.slave);
    command
        .env_remove("COLUMNS")
        .env("LC_ALL", "C.UTF-8")
        .stdout(slave.try_clone().expect("a descriptor"))
        .stderr(slave);
    let mut child = command.spawn().expect("the program runs");
    // The command holds the other end of the terminal: reading ends with the program only without it.
    drop(command);
    let mut text = Vec::new();
    // Linux: EIO once no process has the terminal open.
    let _ = File::from(ends.master).read_to_end(&mut text);
    let status = child.wait().expect("its status");
    let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
    (status, text)
}
