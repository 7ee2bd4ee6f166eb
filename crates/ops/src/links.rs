//! `--link adsl`, `--link my.toml`, `--set up.queue=codel`: a link from the command line.

use crate::usage;
use anyhow::Context;
use link::LinkSpec;
use std::path::Path;

/// Reads one emulated link: a preset's name or a TOML file, with single values changed.
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
    spec.load_traces(files_beside(Path::new(name)))
        .map_err(|e| usage(e.to_string()))?;
    Ok(spec)
}

/// Reads several links in a row. A key that begins with `hop2.` is for the second link, a key without such a prefix for
/// all.
pub fn chain(names: &[String], set: &[String]) -> anyhow::Result<Vec<LinkSpec>> {
    let hop = |pair: &str| -> Option<(usize, String)> {
        let (hop, rest) = pair.trim().strip_prefix("hop")?.split_once('.')?;
        Some((hop.parse().ok()?, rest.to_string()))
    };
    if let Some((n, rest)) = set
        .iter()
        .find_map(|pair| hop(pair).filter(|(n, _)| !(1..=names.len()).contains(n)))
    {
        return Err(usage(format!(
            "--set hop{n}.{rest}: there are {} links, counted from 1 at the near end",
            names.len()
        )));
    }
    let one = |(i, name): (usize, &String)| {
        let of_it = set.iter().filter_map(|pair| match hop(pair) {
            Some((n, rest)) => (n == i + 1).then_some(rest),
            None => Some(pair.clone()),
        });
        parse(name, &of_it.collect::<Vec<_>>())
    };
    names.iter().enumerate().map(one).collect()
}

/// Reads files that another file names: relative to that file, or else to the current directory.
pub fn files_beside(file: &Path) -> impl FnMut(&str) -> Result<String, String> {
    let beside = file.parent().unwrap_or(Path::new("")).to_owned();
    move |path| {
        let there = beside.join(path);
        let read = std::fs::read_to_string(&there).or_else(|e| {
            let here = std::fs::read_to_string(path);
            here.map_err(|_| e)
        });
        read.map_err(|e| format!("{}: {e}", there.display()))
    }
}

/// JSON of the links: one as itself, a chain as a list; null if there is none.
pub(crate) fn links_json(links: &[LinkSpec]) -> anyhow::Result<serde_json::Value> {
    let json = match links {
        [] => Ok(serde_json::Value::Null),
        [link] => serde_json::to_value(link),
        chain => serde_json::to_value(chain),
    };
    json.context("the link's definition")
}
