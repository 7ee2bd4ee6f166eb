//! A directory of one test, removed at its end.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Empty directory of its own, removed when it is dropped.
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates the directory; its name shows the purpose and the process.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn new(purpose: &str) -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tailback-{purpose}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A process of the same number may have been killed here.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|e| panic!("cannot create {}: {e}", path.display()));
        TempDir(path)
    }

    /// Path of a file inside, as text.
    ///
    /// # Panics
    /// If the system's temporary directory is not UTF-8.
    pub fn at(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.into_os_string().into_string().expect("a plain path")
    }

    /// Writes a file inside and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("cannot write {path}: {e}"));
        path
    }

    /// Writes a file that nobody else may read, and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    #[cfg(unix)]
    pub fn secret(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.file(name, text);
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("our own file");
        path
    }
}

impl Deref for TempDir {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_one_purpose_are_apart_and_go_with_their_files() {
        let (a, b) = (TempDir::new("dir"), TempDir::new("dir"));
        assert_ne!(&*a, &*b);
        let file = a.file("x", "1");
        assert_eq!(std::fs::read(&file).unwrap(), b"1");
        drop(a);
        assert!(!Path::new(&file).exists() && b.is_dir());
    }
}
