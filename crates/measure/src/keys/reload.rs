//! The keys that are valid while a key file changes under a running server.
//!
//! Lines that can be read are valid at once. Keys that a file with a fault no longer shows may have been removed, or may
//! stand in the line that cannot be read. They stay valid for [`GRACE`] after the fault, and end then.

use super::{KeyFile, Secret};
use base::{Duration, Time};

/// Time for which keys outlast a fault of the file that no longer shows them.
pub const GRACE: Duration = Duration::from_secs(300);

/// A key file that is read again and again.
#[derive(Clone, Debug)]
pub struct Reload {
    /// The last file without a fault.
    whole: KeyFile,
    valid: KeyFile,
    fault: Option<Fault>,
}

#[derive(Clone, Debug)]
struct Fault {
    since: Time,
    text: String,
    ended: bool,
}

/// News for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The file was read and has no fault.
    Read,
    /// The file has this fault. So many keys that it no longer shows are still valid.
    Fault { text: String, kept: usize },
    /// The fault has lasted for [`GRACE`]: so many keys have ended.
    Ended { text: String, keys: usize },
}

impl Reload {
    /// Starts with a file without a fault.
    pub fn new(file: KeyFile) -> Reload {
        Reload {
            valid: file.clone(),
            whole: file,
            fault: None,
        }
    }

    /// Keys that are valid now.
    pub fn valid(&self) -> &KeyFile {
        &self.valid
    }

    /// True while the file has a fault.
    pub fn is_faulty(&self) -> bool {
        self.fault.is_some()
    }

    /// Takes the lines that the file shows now, and its fault, if it has one.
    pub fn take(&mut self, now: Time, shown: KeyFile, fault: Option<String>) -> Option<News> {
        let Some(text) = fault else {
            let news = self.fault.take().is_some() || shown != self.whole;
            self.valid = shown.clone();
            self.whole = shown;
            return news.then_some(News::Read);
        };
        let before = self.fault.take();
        let since = before.as_ref().map_or(now, |f| f.since);
        let ended = now.saturating_since(since) >= GRACE;
        let same = |f: &Fault| f.text == text && f.ended == ended;
        let is_news = !before.as_ref().is_some_and(same);
        let shows = |name: &str, secret: &Secret| {
            let mut lines = shown.lines.iter();
            lines.any(|l| l.name == name && l.secret == *secret)
        };
        let lost = self.whole.lines.iter();
        let lost: Vec<_> = lost
            .filter(|l| !shows(&l.name, &l.secret))
            .cloned()
            .collect();
        let keys = lost.len();
        self.valid = shown;
        // Stretched keys fit their own salt alone.
        self.valid.salt = self.valid.salt.or(self.whole.salt);
        if !ended {
            self.valid.lines.extend(lost);
        }
        self.fault = Some(Fault {
            since,
            text: text.clone(),
            ended,
        });
        is_news.then_some(if ended {
            News::Ended { text, keys }
        } else {
            News::Fault { text, kept: keys }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;
    use rand::RngExt as _;

    fn file(keys: &[u8]) -> KeyFile {
        let line = |k: &u8| format!("user{} {}\n", k % 5, format!("{k:02x}").repeat(32));
        let text: String = keys.iter().map(line).collect();
        KeyFile::parse(&text).expect("good lines")
    }

    fn at(s: u64) -> Time {
        Time::from_secs(s)
    }

    #[test]
    fn a_key_that_is_removed_from_a_file_with_a_fault_ends_after_five_minutes() {
        let mut reload = Reload::new(file(&[1, 2]));
        let fault = || Some("line 1: one word only".to_owned());
        let news = reload.take(at(10), file(&[2, 3]), fault());
        let text = fault().expect("text");
        let first = News::Fault {
            text: text.clone(),
            kept: 1,
        };
        assert_eq!(news, Some(first));
        assert_eq!(reload.valid().lines.len(), 3, "a new key is valid at once");
        assert_eq!(reload.take(at(309), file(&[2, 3]), fault()), None);
        assert_eq!(reload.valid().lines.len(), 3);
        let news = reload.take(at(310), file(&[2, 3]), fault());
        assert_eq!(news, Some(News::Ended { text, keys: 1 }));
        assert_eq!(reload.valid(), &file(&[2, 3]));
        assert_eq!(reload.take(at(400), file(&[2, 3]), fault()), None);
        // Another fault is no new grace.
        reload.take(at(401), KeyFile::default(), Some("cannot read".into()));
        assert!(reload.valid().lines.is_empty() && reload.is_faulty());
        assert_eq!(reload.take(at(402), file(&[2]), None), Some(News::Read));
        assert_eq!(reload.valid(), &file(&[2]));
    }

    /// Random files: a key that no file has shown for the time of grace is never valid, and one that the file shows always is.
    #[test]
    fn no_key_outlasts_its_removal_by_more_than_the_grace() {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
        eprintln!("seed {seed}");
        let mut rng = Streams::new(seed).stream("reload");
        for _ in 0..200 {
            let mut reload = Reload::new(file(&[1, 2, 3]));
            let mut now = 0;
            for _ in 0..40 {
                now += rng.random_range(1..200);
                let shown: Vec<u8> = (1..12u8).filter(|_| rng.random_bool(0.3)).collect();
                let fault = rng.random_bool(0.7).then(|| format!("fault {now}"));
                reload.take(at(now), file(&shown), fault.clone());
                for line in &file(&shown).lines {
                    assert!(reload.valid().lines.contains(line));
                }
                if fault.is_none() {
                    assert_eq!(reload.valid(), &file(&shown));
                }
                let whole = reload.whole.lines.clone();
                for line in &reload.valid().lines {
                    let shown = file(&shown).lines.contains(line);
                    assert!(shown || whole.contains(line), "a key of no whole file");
                }
            }
            reload.take(at(now + 300), KeyFile::default(), Some("gone".into()));
            reload.take(at(now + 600), KeyFile::default(), Some("gone".into()));
            assert!(reload.valid().lines.is_empty());
        }
    }
}
