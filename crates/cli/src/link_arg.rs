//! `--link adsl`, `--link my.toml`, `--set up.queue=codel`: a link from the command line.

use crate::cmd::usage;
use link::LinkSpec;
use std::path::Path;

/// One emulated link: a preset's name or a TOML file, with single values changed.
pub fn parse(name: &str, set: &[String]) -> anyhow::Result<LinkSpec> {
    let mut spec = if name.ends_with(".toml") || name.contains('/') {
        let text = std::fs::read_to_string(name)
            .map_err(|e| usage(format!("cannot read the link file {name}: {e}")))?;
        LinkSpec::parse(&text).map_err(|e| usage(format!("{name}: {e}")))?
    } else {
        LinkSpec::named(name).map_err(|e| usage(e.to_string()))?
    };
    for pair in set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(usage(format!(
                "--set {pair}: write KEY=VALUE, such as up.queue=codel"
            )));
        };
        spec.set(key.trim(), value.trim())
            .map_err(|e| usage(format!("--set {pair}: {e}")))?;
    }
    // A trace is named as seen from where the command runs, or from the link's file.
    let beside = Path::new(name).parent().unwrap_or(Path::new(""));
    let read = |path: &str| {
        let read =
            std::fs::read_to_string(path).or_else(|_| std::fs::read_to_string(beside.join(path)));
        read.map_err(|e| e.to_string())
    };
    spec.load_traces(read).map_err(|e| usage(e.to_string()))?;
    Ok(spec)
}
