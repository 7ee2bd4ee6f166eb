//! All targets of one recording or several in one plot.

use super::{Plan, ending, span};
use crate::progress::Observer;
use crate::scan::{Contents, Source, fill};
use crate::{times, usage};
use base::record::Text;
use report::plots::{self, Material, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Plot of all targets of all recordings, over the time of all of them.
pub(super) fn draw(plan: &Plan, observer: &dyn Observer) -> anyhow::Result<(String, PathBuf)> {
    let output = plan
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from("hosts.svg"));
    if !matches!(ending(&output), Some("svg" | "png")) {
        return Err(usage(format!(
            "{}: --plot hosts draws one plot: end the name in .svg, .pdf or .png",
            output.display()
        )));
    }
    let zone = times::zone(plan.zone.as_deref())?;
    let (from, to) = span(plan, &zone)?;
    let sources = plan.recordings.iter();
    let sources: Vec<Source> = sources.map(|path| Source { path, observer }).collect();
    let contents = sources.iter().map(|s| Contents::of(*s));
    let contents = contents.collect::<anyhow::Result<Vec<Contents>>>()?;
    let begins = contents.iter().filter_map(|c| Some(c.span?.0));
    let ends = contents.iter().filter_map(|c| Some(c.span?.1));
    let scope = Scope {
        from_ns: from.or(begins.min()).unwrap_or_default(),
        to_ns: to.or(ends.max().map(|t| t + 1)).unwrap_or_default(),
        zone,
    };
    let known: BTreeSet<&Text> = contents.iter().flat_map(|c| c.targets.keys()).collect();
    if let Some(name) = &plan.target
        && !known.iter().any(|t| ***t == **name)
    {
        let known = known.iter().map(|t| &***t).collect::<Vec<_>>().join(", ");
        return Err(usage(format!(
            "no target {name:?} in it. There are: {known}"
        )));
    }
    let mut all = Vec::new();
    for (source, contents) in sources.iter().zip(&contents) {
        let asked = |t: &&Text| plan.target.as_ref().is_none_or(|name| ***t == **name);
        let mut own = Vec::new();
        for target in contents.targets.keys().filter(asked) {
            let mut m = Material::new(scope.clone(), "");
            m.target = target.to_string();
            own.push(m);
        }
        if !own.is_empty() {
            fill(*source, &mut own, None)?;
        }
        for m in own {
            all.push((
                host_name(source.path, &m.target, &contents.targets, sources.len()),
                m,
            ));
        }
    }
    let named: Vec<(String, &Material)> = all.iter().map(|(n, m)| (n.clone(), m)).collect();
    let spec = plots::hosts(&named).map_err(|why| {
        let first = plan.recordings[0].display();
        anyhow::anyhow!("{first}: {why}")
    })?;
    Ok((spec.svg_on(plan.paper()), output))
}

/// Name of a target in a plot of several: with its recording's, if there are several of those.
fn host_name(path: &Path, target: &str, of: &BTreeMap<Text, f64>, recordings: usize) -> String {
    let file = path.file_stem().map(|n| n.to_string_lossy().into_owned());
    match (file, recordings) {
        (Some(file), 2..) if of.len() == 1 => file,
        (Some(file), 2..) => format!("{file}: {target}"),
        _ => target.to_owned(),
    }
}
