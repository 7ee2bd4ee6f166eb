//! Entries that a program adds to a table at run time, such as a queue discipline of its own, and the errors of their
//! code. A table of this house is fixed; what users add stands beside it until the process ends.

use crate::words::Entry;
use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Entries that were added to a table, the newest first.
pub struct Added<T: 'static>(RwLock<Vec<&'static T>>);

impl<T: Send + Sync> Added<T> {
    /// Creates a table without entries.
    pub const fn new() -> Added<T> {
        Added(RwLock::new(Vec::new()))
    }

    /// Adds an entry in front of the others; it is kept until the process ends.
    pub fn add(&self, entry: T) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(0, Box::leak(Box::new(entry)));
    }

    /// Returns all entries, the newest first.
    pub fn all(&self) -> std::vec::IntoIter<&'static T> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.clone().into_iter()
    }
}

impl<T: Send + Sync> Default for Added<T> {
    fn default() -> Added<T> {
        Added::new()
    }
}

/// Checks the name of an entry to add against the built-in ones.
///
/// # Errors
/// A name that is built in, or one that no scenario can write.
pub fn check_name(
    name: &str,
    mut built_in: impl Iterator<Item = &'static Entry>,
) -> Result<(), String> {
    if built_in.any(|entry| entry.name == name) {
        return Err(format!("\"{name}\" is built in: choose another name"));
    }
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match !name.is_empty() && name.chars().all(word) {
        true => Ok(()),
        false => Err(format!(
            "\"{name}\" is no name: use lower-case letters, digits and _"
        )),
    }
}

/// Error of added code, such as an exception of Python.
#[derive(Clone, Debug)]
pub struct Failure(pub Arc<dyn Error + Send + Sync>);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl PartialEq for Failure {
    fn eq(&self, other: &Failure) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

thread_local! {
    static FAILED: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Reports an error of added code to the run on this thread, which then ends with it. The first one counts.
pub fn fail(failure: Failure) {
    FAILED.with_borrow_mut(|failed| {
        failed.get_or_insert(failure);
    });
}

/// Takes the error that was reported on this thread.
pub fn take_failure() -> Option<Failure> {
    FAILED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: [Entry; 1] = [Entry {
        name: "fifo",
        summary: "",
        sources: &[],
        parameters: &[],
    }];

    #[test]
    fn a_name_is_free_and_can_be_written() {
        let check = |name| check_name(name, BUILT_IN.iter().map(|e| Box::leak(Box::new(*e)) as &_));
        assert_eq!(check("my_queue2"), Ok(()));
        assert!(check("fifo").unwrap_err().contains("built in"));
        for wrong in ["", "My", "a:b", "a,b", "a b"] {
            assert!(check(wrong).unwrap_err().contains("no name"), "{wrong}");
        }
    }

    #[test]
    fn the_newest_entry_stands_first_and_the_first_failure_counts() {
        let added = Added::new();
        added.add(1);
        added.add(2);
        assert_eq!(added.all().copied().collect::<Vec<i32>>(), [2, 1]);
        assert_eq!(take_failure(), None);
        let first = Failure(Arc::new(fmt::Error));
        fail(first.clone());
        fail(Failure(Arc::new(fmt::Error)));
        assert_eq!(take_failure(), Some(first));
        assert_eq!(take_failure(), None);
    }
}
