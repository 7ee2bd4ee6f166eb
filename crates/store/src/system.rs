//! Files where operating systems differ: links that are not followed, permissions, and reading and writing at an offset.
//! Each system has the same functions.

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

#[cfg(unix)]
mod unix {
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    /// Creates a directory that its owner can write and its group can read.
    pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o750).create(path)
    }

    /// Makes `options` follow no symbolic link; a new file can be read by its group.
    pub(crate) fn no_link(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o640).custom_flags(libc::O_NOFOLLOW)
    }

    /// Opens a file for reading; a link is an error, and a pipe is not waited for.
    pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        match options.read(true).custom_flags(flags).open(path) {
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => Err(super::link()),
            opened => opened,
        }
    }

    /// Makes created, renamed and removed entries of a directory durable.
    pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(bytes, offset)
    }

    /// True if `path` still leads to this open file.
    pub(crate) fn is_still(file: &File, path: &Path) -> bool {
        let (Ok(ours), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }
}

#[cfg(windows)]
mod windows {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::windows::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;

    /// Opens a link itself, not the file it leads to (CreateFileW).
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

    /// Creates a directory with the permissions of the one above.
    pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    /// Makes `options` follow no symbolic link; a new file has the permissions of its directory.
    pub(crate) fn no_link(options: &mut OpenOptions) -> &mut OpenOptions {
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
    }

    /// Opens a file for reading; a link is an error.
    pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
        let file = no_link(OpenOptions::new().read(true)).open(path)?;
        match file.metadata()?.is_symlink() {
            true => Err(super::link()),
            false => Ok(file),
        }
    }

    /// Nothing: the file system keeps a journal of its directories, and a program cannot write them out.
    pub(crate) fn sync_dir(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match file.seek_write(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    pub(crate) fn read_exact_at(
        file: &File,
        mut bytes: &mut [u8],
        mut offset: u64,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match file.seek_read(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    bytes = &mut bytes[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// True if there is still a file at `path`: a locked one cannot be replaced by another.
    pub(crate) fn is_still(_: &File, path: &Path) -> bool {
        path.exists()
    }
}

fn link() -> std::io::Error {
    std::io::Error::other("it is a link, and a recording has none")
}
