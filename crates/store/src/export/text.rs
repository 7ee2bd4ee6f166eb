//! Text files with a line a row, one file a table, in one directory.

use crate::{StoreError, disk};
use base::record::TableId;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Files of a directory, each begun with its first row.
pub(super) struct Texts {
    directory: PathBuf,
    ending: &'static str,
    files: BTreeMap<TableId, BufWriter<File>>,
}

impl Texts {
    /// # Errors
    /// `Io` if the directory cannot be created; `Exists` if it exists and is not empty.
    pub(super) fn create(directory: &Path, ending: &'static str) -> Result<Texts, StoreError> {
        let io = |action, e| StoreError::io(action, directory, 0, e);
        std::fs::create_dir_all(directory).map_err(|e| io("create the directory", e))?;
        let mut entries = std::fs::read_dir(directory).map_err(|e| io("list", e))?;
        if entries.next().is_some() {
            return Err(StoreError::Exists {
                path: directory.to_owned(),
            });
        }
        Ok(Texts {
            directory: directory.to_owned(),
            ending,
            files: BTreeMap::new(),
        })
    }

    fn path(&self, table: TableId) -> PathBuf {
        let name = format!("{}.{}", table.spec().name, self.ending);
        self.directory.join(name)
    }

    /// Writes a line. The file of a table without rows yet begins with `first`.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub(super) fn line(
        &mut self,
        table: TableId,
        first: impl FnOnce() -> String,
        line: &[u8],
    ) -> Result<(), StoreError> {
        if !self.files.contains_key(&table) {
            let path = self.path(table);
            let begun = disk::create_new(&path).and_then(|file| {
                let mut file = BufWriter::with_capacity(1 << 16, file);
                file.write_all(first().as_bytes())?;
                Ok(file)
            });
            let file = begun.map_err(|e| StoreError::io("create", &path, 0, e))?;
            self.files.insert(table, file);
        }
        let written = self.files.get_mut(&table).map_or(Ok(()), |f| {
            f.write_all(line)?;
            f.write_all(b"\n")
        });
        written.map_err(|e| StoreError::io("write", &self.path(table), 0, e))
    }

    /// Writes everything to the disk. Returns the files.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub(super) fn close(mut self) -> Result<Vec<PathBuf>, StoreError> {
        let mut paths = Vec::new();
        for (table, file) in std::mem::take(&mut self.files) {
            let path = self.path(table);
            file.into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(|file| file.sync_all())
                .map_err(|e| StoreError::io("write", &path, 0, e))?;
            paths.push(path);
        }
        Ok(paths)
    }
}
