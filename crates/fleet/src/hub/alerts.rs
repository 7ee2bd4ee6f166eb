//! Alerts of a hub: a command, a webhook or a mail when a point gets into trouble and when it is well again, and when a release halts.
//!
//! The ledger keeps what was told last, so that a restart of the hub tells nothing twice and misses nothing.

use super::Hub;
use super::status::{Health, Status};
use crate::unix_s;
use ops::tell::Change;
use std::collections::BTreeMap;

/// State of a point or release as it is told: a word, and the reason.
type Told = (String, String);

/// Present state of all that alerts are about, by name. A point that has not reported yet has none.
fn present(status: &Status) -> BTreeMap<String, Told> {
    let mut all = BTreeMap::new();
    for point in &status.points {
        let word = match point.health {
            Health::New => continue,
            // A trial is no trouble.
            Health::Ok | Health::Upgrade => "ok".to_owned(),
            trouble => trouble.to_string(),
        };
        let why = point.why.clone().unwrap_or_default();
        all.insert(point.name.clone(), (word, why));
    }
    if let Some(release) = &status.release {
        let state = match &release.halted {
            Some(why) => ("halted".to_owned(), why.clone()),
            None => ("ok".to_owned(), String::new()),
        };
        all.insert(format!("release {}", release.version), state);
    }
    all
}

/// Changes between what was told last and now. What is new and well is none.
fn changes(before: &BTreeMap<String, String>, now: &BTreeMap<String, Told>) -> Vec<(String, Told)> {
    let is_change = |(name, (word, _)): &(&String, &Told)| match before.get(*name) {
        Some(told) => told != word,
        None => word != "ok",
    };
    let changed = now.iter().filter(is_change);
    changed
        .map(|(name, told)| (name.clone(), told.clone()))
        .collect()
}

fn told(name: &str, (word, why): &Told, hub: &str) -> Change {
    let because = match why.is_empty() {
        true => String::new(),
        false => format!(": {why}"),
    };
    Change {
        about: name.to_owned(),
        environment: vec![
            ("TAILBACK_POINT", name.to_owned()),
            ("TAILBACK_STATE", word.clone()),
            ("TAILBACK_WHY", why.clone()),
        ],
        json: serde_json::json!({ "point": name, "state": word, "why": why, "host": hub }),
        subject: format!("tailback hub on {hub}: {name} is {word}"),
        text: format!("{name} is {word}{because}."),
    }
}

impl Hub {
    /// Changes since the last call, of this process or one before it.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub(super) fn changes(&self, host: &str) -> anyhow::Result<Vec<Change>> {
        let now = present(&self.status()?);
        let mut ledger = self.ledger();
        let changed = changes(&ledger.told()?, &now);
        let words = now.iter().map(|(name, (word, _))| (&**name, &**word));
        ledger.tell(unix_s(), words)?;
        Ok(changed
            .iter()
            .map(|(name, state)| told(name, state, host))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once_and_what_is_new_and_well_is_not() {
        let state = |all: &[(&str, &str)]| -> BTreeMap<String, Told> {
            let told = |(name, word): &(&str, &str)| {
                ((*name).to_owned(), ((*word).to_owned(), String::new()))
            };
            all.iter().map(told).collect()
        };
        let mut before = BTreeMap::new();
        let mut step = |all: &[(&str, &str)]| -> Vec<String> {
            let now = state(all);
            let changed = changes(&before, &now);
            before = now.into_iter().map(|(name, told)| (name, told.0)).collect();
            changed
                .into_iter()
                .map(|(name, told)| format!("{name} {}", told.0))
                .collect()
        };
        assert!(step(&[("a", "ok"), ("b", "ok")]).is_empty());
        assert_eq!(step(&[("a", "silent"), ("b", "ok")]), ["a silent"]);
        assert!(step(&[("a", "silent"), ("b", "ok")]).is_empty());
        assert_eq!(
            step(&[("a", "late"), ("b", "ok"), ("c", "disk")]),
            ["a late", "c disk"]
        );
        assert_eq!(step(&[("a", "ok"), ("b", "ok"), ("c", "disk")]), ["a ok"]);
    }
}
