//! Files that are either the old or the new, whatever happens in between.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Puts what `content` writes in the place of `path`.
///
/// It goes into a new file in the same folder, which takes the name `path` only when all of it is
/// on the disk. A failure or a crash leaves `path` as it was.
pub fn replace(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    let result = fill(file, content).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
        return result;
    }
    sync_folder(path)
}

fn fill(
    file: File,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    content(&mut writer)?;
    writer.flush()?;
    writer.get_ref().sync_all()
}

/// A name in the folder of `path` that no other writer of this or another process takes.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static WRITERS: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path does not end in a file name",
        ));
    };
    let mut temporary = OsString::from(".");
    temporary.push(name);
    let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
    temporary.push(format!(".{}-{writer}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

/// Makes the new name last: on Unix a name belongs to its folder, which is written on its own.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
