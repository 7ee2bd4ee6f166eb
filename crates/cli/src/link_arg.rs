//! `--link adsl`, `--link my.toml`, `--set up.queue=codel`: a link from the command line.

use crate::cmd::usage;
use link::LinkSpec;

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
    Ok(spec)
}
