//! Plots as PNG and PDF, by an installed converter.

use anyhow::Context;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Format that a converter makes of an SVG.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Png,
    Pdf,
}

impl Format {
    /// Format of a file, by its extension; none if it needs no converter.
    pub(super) fn of(output: &Path) -> Option<Format> {
        match output.extension()?.to_str()? {
            "png" => Some(Format::Png),
            "pdf" => Some(Format::Pdf),
            _ => None,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Format::Png => ".png",
            Format::Pdf => ".pdf",
        }
    }
}

/// Writes a picture with an installed converter. Fonts and a renderer would be a third of this program's build.
pub(super) fn write(svg: &str, output: &Path, format: Format) -> anyhow::Result<()> {
    let beside = |ending| {
        store::disk::create_temporary(output, ending)
            .map_err(|e| anyhow::anyhow!("cannot write beside {}: {e}", output.display()))
    };
    let (mut file, plain) = beside(".svg")?;
    file.write_all(svg.as_bytes())
        .with_context(|| format!("cannot write {}", plain.display()))?;
    let picture = beside(format.ending()).map(|(_, path)| path);
    let made = picture.and_then(|picture| {
        let made = convert(svg, &plain, &picture, format)
            .and_then(|()| Ok(std::fs::rename(&picture, output)?));
        let _ = std::fs::remove_file(&picture);
        made
    });
    let _ = std::fs::remove_file(&plain);
    made.map_err(|why| anyhow::anyhow!("cannot make {}: {why}", output.display()))
}

/// Converts the file `plain` into the file `picture`.
fn convert(svg: &str, plain: &Path, picture: &Path, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Png => first_that_works(png(svg, plain, picture), picture),
        Format::Pdf => first_that_works(pdf(plain, picture), picture),
    }
}

/// Commands that make a PDF of the size of the picture.
fn pdf(plain: &Path, picture: &Path) -> Vec<Command> {
    let command = |program: &str, before: &[&str], between: &[&str]| {
        let mut command = Command::new(program);
        command.args(before).arg(plain).args(between).arg(picture);
        command
    };
    vec![
        command("rsvg-convert", &["-f", "pdf"], &["-o"]),
        command("inkscape", &[], &["-o"]),
        command("cairosvg", &[], &["-o"]),
    ]
}

/// Commands that make a PNG of twice the picture's pixels.
fn png(svg: &str, plain: &Path, picture: &Path) -> Vec<Command> {
    let (width, height) = report::svg::size(svg);
    let (from, to) = (plain.as_os_str(), picture.as_os_str());
    let shot = |to: &std::ffi::OsStr| {
        let mut arg = std::ffi::OsString::from("--screenshot=");
        arg.push(to);
        arg
    };
    let absolute = std::path::absolute(plain).unwrap_or_else(|_| plain.to_owned());
    let window = format!("--window-size={},{}", width.ceil(), height.ceil());
    let quiet = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-device-scale-factor=2",
    ];
    let mut ways: Vec<Command> = Vec::new();
    let mut way = |program: &str, args: &[&std::ffi::OsStr]| {
        let mut command = Command::new(program);
        command.args(args);
        ways.push(command);
    };
    way(
        "rsvg-convert",
        &["--zoom=2".as_ref(), from, "-o".as_ref(), to],
    );
    way("resvg", &["--zoom=2".as_ref(), from, to]);
    way(
        "inkscape",
        &[from, "--export-dpi=192".as_ref(), "-o".as_ref(), to],
    );
    for browser in ["chromium", "google-chrome"] {
        let mut args: Vec<&std::ffi::OsStr> = quiet.iter().map(|a| a.as_ref()).collect();
        let screenshot = shot(to);
        args.extend([
            screenshot.as_os_str(),
            window.as_ref(),
            absolute.as_os_str(),
        ]);
        way(browser, &args);
    }
    ways
}

/// Runs the commands until one has written the picture.
fn first_that_works(mut ways: Vec<Command>, picture: &Path) -> anyhow::Result<()> {
    let mut failed = String::new();
    let made = ways.iter_mut().any(|command| {
        let ran = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output();
        match ran {
            Ok(done) if done.status.success() && is_written(picture) => true,
            Ok(done) => {
                let said = String::from_utf8_lossy(&done.stderr);
                failed = format!(" ({:?} said: {})", command.get_program(), said.trim());
                false
            }
            Err(_) => false,
        }
    });
    anyhow::ensure!(
        made,
        "no program that draws SVG works here{failed}. Install librsvg2-bin (rsvg-convert), or write .svg"
    );
    Ok(())
}

fn is_written(picture: &Path) -> bool {
    picture.metadata().is_ok_and(|m| m.len() > 0)
}
