use crate::batch::Rows;
use crate::day::{day_name, day_of};
use crate::disk::{Disk, Output, RealDisk, parent, part_of, replace};
use crate::keep::heirs;
use crate::lock::Lock;
use crate::parquet_file::Sheet;
use crate::stream::Encoder;
use crate::{META, OPEN, SEALED, StoreError, checksum, parquet_file};
use arrow_array::RecordBatch;
use base::Duration;
use base::record::{FORMAT_VERSION, Meta, Origin, Row, Table, TableId};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Largest number of rows in a batch.
const BATCH_ROWS: usize = 65_536;

/// Action if a recording of that name exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Name {
    /// Refuse.
    #[default]
    Exact,
    /// Take the next free name: `home.rec`, `home-2.rec`, `home-3.rec`.
    NextFree,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub name: Name,
    /// Offset of the host's clock east of UTC, s: a day's file starts at the host's midnight.
    pub utc_offset_s: i32,
    /// Interval between flushes to the disk. The default is half of the second that a crash may cost, which leaves a
    /// busy host the other half.
    pub flush_every: Option<Duration>,
    /// True to sync rows as they come. The default is true except for simulated and imported recordings, whose rows can
    /// be regenerated.
    pub durable: Option<bool>,
}

impl Options {
    /// # Errors
    /// The same as `Writer::create`.
    pub fn create(self, path: impl AsRef<Path>, meta: Meta) -> Result<Writer, StoreError> {
        let mut writer = self.create_on(Box::new(RealDisk), path, meta)?;
        writer.lock = Some(Lock::take(&writer.path)?);
        Ok(writer)
    }

    /// Creates like `create`, on another disk than the operating system's.
    ///
    /// # Errors
    /// The same as `Writer::create`.
    pub fn create_on(
        self,
        disk: Box<dyn Disk>,
        path: impl AsRef<Path>,
        meta: Meta,
    ) -> Result<Writer, StoreError> {
        let path = make_dir(&*disk, path.as_ref(), self.name)?;
        let mut writer = self.writer(disk, path, &meta);
        let begun = writer.write_meta(Meta {
            ended_ns: None,
            complete: false,
            ..meta
        });
        let begun = begun.and_then(|()| {
            let entry = writer.disk.sync_dir(parent(&writer.path));
            entry.map_err(|e| StoreError::io("sync the directory of", &writer.path, 0, e))
        });
        if let Err(e) = begun {
            // The name must be free for the next attempt.
            for file in [writer.path.join(META), part_of(&writer.path.join(META))] {
                let _ = writer.disk.remove(&file);
            }
            let _ = writer.disk.remove_dir(&writer.path);
            return Err(e);
        }
        writer.closed = false;
        Ok(writer)
    }

    /// Continues the recording at `path`: its files stay, and new rows go to further files. `meta` replaces the old
    /// one.
    ///
    /// # Errors
    /// `InUse` if another process writes to it; `Io` or `DiskFull` if the directory cannot be written to.
    pub fn resume(self, path: impl AsRef<Path>, meta: Meta) -> Result<Writer, StoreError> {
        let lock = Lock::take(path.as_ref())?;
        let mut writer = self.writer(Box::new(RealDisk), path.as_ref().to_owned(), &meta);
        writer.lock = Some(lock);
        writer.write_meta(Meta {
            ended_ns: None,
            complete: false,
            ..meta
        })?;
        writer.closed = false;
        Ok(writer)
    }

    fn writer(self, disk: Box<dyn Disk>, path: PathBuf, meta: &Meta) -> Writer {
        Writer {
            disk: Arc::from(disk),
            path,
            utc_offset_s: self.utc_offset_s,
            durable: self
                .durable
                .unwrap_or(!matches!(meta.origin, Origin::Simulated | Origin::Imported)),
            flush_every: self.flush_every.unwrap_or(FLUSH_EVERY),
            streams: BTreeMap::new(),
            sheets: Sheets::default(),
            pages: BTreeMap::new(),
            now_ns: meta.started_ns,
            flushed_ns: meta.started_ns,
            rows_released: 0,
            rows_refused: 0,
            closed: true,
            lock: None,
        }
    }
}

/// Creates the directory and returns its name.
fn make_dir(disk: &dyn Disk, wanted: &Path, name: Name) -> Result<PathBuf, StoreError> {
    let stem = wanted.file_stem().unwrap_or_default().to_string_lossy();
    let extension = wanted
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()))
        .unwrap_or_default();
    let mut path = wanted.to_owned();
    let mut number = 1;
    loop {
        match disk.create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && name == Name::Exact => {
                return Err(StoreError::Exists { path });
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                number += 1;
                path = wanted.with_file_name(format!("{stem}-{number}{extension}"));
            }
            Err(e) => return Err(StoreError::io("create the directory", &path, 0, e)),
        }
    }
}

/// Contents of a closed recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub path: PathBuf,
    pub rows: u64,
}

/// Writer of one recording. Do not use it on the measuring thread, because a flush waits for the disk. Give it its own
/// thread and pass rows through a channel, as `record` does.
///
/// Dropping it without `close`, as after a fault, leaves a readable recording with `complete` false.
pub struct Writer {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    utc_offset_s: i32,
    /// True if rows are synced as they come.
    durable: bool,
    flush_every: Duration,
    streams: BTreeMap<(TableId, i64), Stream>,
    /// Tables written by column, directly to Parquet.
    sheets: Sheets,
    /// Rows collected for those tables.
    pages: BTreeMap<(TableId, i64), Rows>,
    /// Latest instant passed in.
    now_ns: i64,
    /// Time of the last flush.
    flushed_ns: i64,
    /// Rows in files of released days.
    rows_released: u64,
    rows_refused: u64,
    closed: bool,
    /// Lock against other writers; the last field, so that it is dropped last.
    lock: Option<Lock>,
}

impl Writer {
    /// Creates the directory `path` and its `meta.json`, in which `complete` is false and `ended_ns` null until
    /// `close`.
    ///
    /// # Errors
    /// `Exists`; `Io` or `DiskFull` if the directory cannot be written to.
    pub fn create(path: impl AsRef<Path>, meta: Meta) -> Result<Writer, StoreError> {
        Options::default().create(path, meta)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of rows written to files so far.
    pub fn rows_saved(&self) -> u64 {
        let open: u64 = self.streams.values().map(|s| s.rows_saved).sum();
        self.rows_released + open
    }

    /// Returns the number of rows that fitted neither on the disk nor in memory.
    pub fn rows_refused(&self) -> u64 {
        self.rows_refused
    }

    /// True if rows wait that a flush could not save.
    pub fn is_behind(&self) -> bool {
        self.streams.values().any(|s| s.pending_rows > 0)
    }

    /// Changes the time of midnight from now on, for example when summer time starts.
    pub fn set_utc_offset(&mut self, utc_offset_s: i32) {
        self.utc_offset_s = utc_offset_s;
    }

    /// Releases the files of days that ended before `t_ns`, once the disk has all of their rows: [`crate::seal_days`]
    /// may then convert them to Parquet. A later row of such a day goes to a further file. Returns true if there were
    /// any.
    ///
    /// # Errors
    /// The same as `flush`; nothing is released then.
    pub fn release_days_before(&mut self, t_ns: i64) -> Result<bool, StoreError> {
        let today = day_of(t_ns, self.utc_offset_s);
        if self.streams.keys().all(|(_, day)| *day >= today) {
            return Ok(false);
        }
        self.flush()?;
        let mut released = 0;
        self.streams.retain(|(_, day), stream| {
            let keep = *day >= today || stream.unsaved() > 0;
            released += if keep { 0 } else { stream.rows_saved };
            keep
        });
        self.rows_released += released;
        Ok(true)
    }

    /// Returns the first day whose files are still being written, named as files are.
    pub fn first_open_day(&self) -> Option<String> {
        let days = self.streams.keys().map(|(_, day)| *day);
        days.min().map(day_name)
    }

    /// Writes a row. Rows may come in any order of time; each goes to the end of its day's file.
    ///
    /// # Errors
    /// `DiskFull` or `Io` from a flush that was due. Rows that could not be saved are kept and retried with the next
    /// flush, up to two batches per table; beyond that the row itself is refused.
    pub fn write(&mut self, row: Row) -> Result<(), StoreError> {
        let (table, t_ns) = (row.table(), row.time_ns());
        let day = day_of(t_ns, self.utc_offset_s);
        let stream = self
            .streams
            .entry((table, day))
            .or_insert_with(|| Stream::new(&self.path, table, day));
        if stream.rows.len() >= BATCH_ROWS
            && let Err(e) = stream.save(&*self.disk)
        {
            self.rows_refused += 1;
            return Err(e);
        }
        stream.rows.push(&row);
        if t_ns > self.now_ns {
            self.tick(t_ns)
        } else {
            Ok(())
        }
    }

    /// Writes a row whose type is known at compile time. Rows that can be regenerated go directly to Parquet: use
    /// either this or `write` for a table, not both.
    ///
    /// # Errors
    /// The same as `write`; if rows can be regenerated, the recording is unusable then.
    pub fn push<T: Table>(&mut self, row: T) -> Result<(), StoreError> {
        if self.durable {
            return self.write(row.into_row());
        }
        let day = day_of(row.time_ns(), self.utc_offset_s);
        let page = self.page(T::ID, day);
        page.push_as(&row);
        if page.len() < BATCH_ROWS {
            return Ok(());
        }
        let batch = page.take().expect("columns of a table are equally long");
        self.append(T::ID, day, &batch)
    }

    fn page(&mut self, table: TableId, day: i64) -> &mut Rows {
        let page = self.pages.entry((table, day));
        page.or_insert_with(|| Rows::new(table))
    }

    fn append_pages(&mut self) -> Result<(), StoreError> {
        for ((table, day), mut page) in std::mem::take(&mut self.pages) {
            if page.len() > 0 {
                let batch = page.take().expect("columns of a table are equally long");
                self.append(table, day, &batch)?;
            }
        }
        Ok(())
    }

    /// Writes whole columns of one table and day, directly to Parquet: for imports, which can be repeated after an
    /// interruption. Use either this or rows for a table, not both.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub(crate) fn append(
        &mut self,
        table: TableId,
        day: i64,
        batch: &RecordBatch,
    ) -> Result<(), StoreError> {
        self.sheets
            .sheet(&*self.disk, &self.path, table, day)?
            .write(batch)
    }

    pub(crate) fn utc_offset_s(&self) -> i32 {
        self.utc_offset_s
    }

    /// Passes the current time, UNIX ns; flushes if the last flush is 0.5 s old. Call it a few times per second while
    /// no rows come.
    ///
    /// # Errors
    /// The same as `flush`.
    pub fn tick(&mut self, now_ns: i64) -> Result<(), StoreError> {
        self.now_ns = now_ns;
        if self.durable && self.now_ns.abs_diff(self.flushed_ns) >= self.flush_every.as_nanos() {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes every row to the disk and waits until they are durable.
    ///
    /// # Errors
    /// The first `DiskFull` or `Io`; the other tables are flushed nevertheless.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.flushed_ns = self.now_ns;
        let mut result = Ok(());
        for stream in self.streams.values_mut() {
            result = result.and(stream.save(&*self.disk));
        }
        if self.durable {
            for stream in self.streams.values_mut() {
                result = result.and(stream.sync(&*self.disk, &self.path));
            }
        }
        // Yesterday's files are rarely needed any more; two days' stay open, for late rows.
        let newest = self.streams.keys().map(|(_, day)| *day).max();
        for ((_, day), stream) in &mut self.streams {
            if newest.is_some_and(|n| *day < n - 1) && stream.synced {
                stream.file = None;
            }
        }
        result
    }

    /// Closes the recording: every table becomes Parquet, and then `meta.json` gets its final contents. The stream of a
    /// table is removed only once its Parquet file is durable. `meta` replaces the one given to `create`.
    /// # Errors
    /// `DiskFull`, `Io`, `Damaged`. The recording is readable nevertheless, with all rows that were saved.
    pub fn close(mut self, meta: Meta) -> Result<Closed, StoreError> {
        self.closed = true;
        // Small files first: each conversion frees space for the next.
        let mut left: Vec<_> = std::mem::take(&mut self.streams).into_iter().collect();
        left.sort_by_key(|(key, stream)| (stream.len, *key));
        let mut rows = 0;
        let paged = self.append_pages();
        let sheets = std::mem::take(&mut self.sheets).close(&*self.disk);
        let sheets = paged.and(sheets);
        let result = loop {
            let before = left.len();
            let mut first = Ok(());
            left.retain_mut(|(_, stream)| {
                let done = stream.seal(&*self.disk, &self.path);
                rows += if done.is_ok() { stream.rows_saved } else { 0 };
                let failed = done.is_err();
                first = std::mem::replace(&mut first, Ok(())).and(done);
                failed
            });
            // Conversions that failed for lack of space are retried as long as others freed some.
            if left.is_empty() || left.len() == before {
                break first;
            }
        };
        let all_saved = sheets.is_ok() && left.iter().all(|(_, stream)| stream.unsaved() == 0);
        let result = result.and(sheets.map(|saved| rows += saved));
        let meta = Meta {
            complete: meta.complete && all_saved,
            ..meta
        };
        result.and(self.write_meta(meta)).map(|()| Closed {
            path: self.path.clone(),
            rows,
        })
    }

    fn write_meta(&self, meta: Meta) -> Result<(), StoreError> {
        let path = self.path.join(META);
        let meta = Meta {
            format: FORMAT_VERSION,
            ..meta
        };
        let text =
            serde_json::to_string_pretty(&meta).expect("maps of a recording's meta have text keys");
        replace(&*self.disk, &path, checksum::add(&text).as_bytes())
            .map_err(|e| StoreError::io("write", &path, self.rows_saved(), e))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.closed {
            // The error cannot be reported any more; rows flushed before are readable in any case.
            let _ = self.flush();
        }
    }
}

/// Parquet files being written. Few are open at a time; a row for a day whose file is already closed starts a further
/// file of that day.
#[derive(Default)]
struct Sheets {
    open: VecDeque<((TableId, i64), Sheet)>,
    /// Number of files per day and table.
    files: BTreeMap<(TableId, i64), u32>,
    rows_closed: u64,
}

impl Sheets {
    const MOST_OPEN: usize = 16;

    fn sheet(
        &mut self,
        disk: &dyn Disk,
        recording: &Path,
        table: TableId,
        day: i64,
    ) -> Result<&mut Sheet, StoreError> {
        let key = (table, day);
        if let Some(at) = self.open.iter().position(|(k, _)| *k == key) {
            self.open.swap(0, at);
        } else {
            if self.open.len() >= Self::MOST_OPEN {
                let oldest = self.open.pop_back();
                self.rows_closed += oldest.map_or(Ok(0), |(_, s)| s.close(disk))?;
            }
            let dir = recording.join(table.spec().name);
            match disk.create_dir(&dir) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(StoreError::io("create the directory", &dir, 0, e));
                }
                _ => {}
            }
            let number = self.files.entry(key).or_default();
            *number += 1;
            let name = match *number {
                1 => format!("{}.{SEALED}", day_name(day)),
                n => format!("{}-{n}.{SEALED}", day_name(day)),
            };
            let sheet = Sheet::create(disk, table, &dir.join(name), parquet_file::LARGE_GROUP)?;
            self.open.push_front((key, sheet));
        }
        Ok(&mut self.open[0].1)
    }

    /// Closes all files; returns the rows in them.
    fn close(mut self, disk: &dyn Disk) -> Result<u64, StoreError> {
        let mut result = Ok(self.rows_closed);
        for (_, sheet) in self.open.drain(..) {
            let closed = sheet.close(disk);
            result = result.and_then(|rows| closed.map(|r| rows + r));
        }
        result
    }
}

/// File of one table and day.
struct Stream {
    table: TableId,
    dir: PathBuf,
    /// Name of the file without the extension.
    stem: String,
    rows: Rows,
    encoder: Encoder,
    file: Option<Box<dyn Output>>,
    /// Bytes of complete batches in the file; the next batch goes there.
    len: u64,
    rows_saved: u64,
    /// Encoded batch that is not in the file yet; the next field holds its number of rows.
    pending: Vec<u8>,
    pending_rows: u64,
    /// True if the disk has all of `len`.
    synced: bool,
    /// True if the directory entries of the file and its directory are durable.
    entered: bool,
}

impl Stream {
    fn new(recording: &Path, table: TableId, day: i64) -> Stream {
        let rows = Rows::new(table);
        Stream {
            table,
            dir: recording.join(table.spec().name),
            stem: day_name(day),
            encoder: Encoder::new(&rows).expect("the schema of a table can be streamed"),
            rows,
            file: None,
            len: 0,
            rows_saved: 0,
            pending: Vec::new(),
            pending_rows: 0,
            synced: true,
            entered: false,
        }
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", self.stem))
    }

    fn unsaved(&self) -> u64 {
        self.pending_rows + self.rows.len() as u64
    }

    /// Writes all rows into the file.
    fn save(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        self.put(disk)?;
        if self.rows.len() > 0 {
            self.pending_rows = self.rows.len() as u64;
            let batch = self
                .rows
                .take()
                .expect("columns of a table are equally long");
            self.encoder
                .encode(&batch, &mut self.pending)
                .expect("a batch has its own schema");
            self.put(disk)?;
        }
        Ok(())
    }

    /// Returns the day's name, with a number if this day has files already: `2026-11-21-002`.
    fn free_stem(&self, disk: &dyn Disk) -> String {
        let recording = parent(&self.dir);
        let taken = |stem: &str| {
            heirs(self.table).any(|(table, extension)| {
                let dir = recording.join(table.spec().name);
                disk.exists(&dir.join(format!("{stem}.{extension}")))
            })
        };
        let day = self.stem.get(..10).unwrap_or(&self.stem);
        let numbered = (2..).map(|n| format!("{day}-{n:03}"));
        let mut all = std::iter::once(day.to_owned()).chain(numbered);
        all.find(|stem| !taken(stem))
            .expect("the numbers do not end")
    }

    /// Writes the pending batch; `len` counts it only if it is complete.
    fn put(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.len == 0 && self.file.is_none() {
            self.stem = self.free_stem(disk);
        }
        let path = self.path(OPEN);
        let failed = |action, e| StoreError::io(action, &path, self.rows_saved, e);
        let file = match &mut self.file {
            Some(file) => file,
            None if self.len > 0 => self
                .file
                .insert(disk.open(&path).map_err(|e| failed("open", e))?),
            None => match disk.create_dir(&self.dir) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(StoreError::io("create the directory", &self.dir, 0, e));
                }
                _ => self
                    .file
                    .insert(disk.create(&path).map_err(|e| failed("create", e))?),
            },
        };
        file.write_at(&self.pending, self.len)
            .map_err(|e| failed("write", e))?;
        self.len += self.pending.len() as u64;
        self.rows_saved += self.pending_rows;
        self.synced = false;
        self.pending.clear();
        self.pending_rows = 0;
        Ok(())
    }

    fn sync(&mut self, disk: &dyn Disk, recording: &Path) -> Result<(), StoreError> {
        let path = self.path(OPEN);
        let failed = |e| StoreError::io("sync", &path, self.rows_saved, e);
        if let (Some(file), false) = (&mut self.file, self.synced) {
            file.sync().map_err(failed)?;
            self.synced = true;
        }
        if !self.entered && self.len > 0 {
            disk.sync_dir(&self.dir)
                .and_then(|()| disk.sync_dir(recording))
                .map_err(failed)?;
            self.entered = true;
        }
        Ok(())
    }

    /// Converts the file to Parquet.
    fn seal(&mut self, disk: &dyn Disk, recording: &Path) -> Result<(), StoreError> {
        self.save(disk)?;
        let (open, sealed) = (self.path(OPEN), self.path(SEALED));
        // If Parquet fails, this file is what remains: sync it first.
        self.sync(disk, recording)?;
        self.file = None;
        parquet_file::convert(disk, self.table, &open, &sealed, self.rows_saved)?;
        disk.remove(&open)
            .map_err(|e| StoreError::io("remove", &open, self.rows_saved, e))
    }
}
