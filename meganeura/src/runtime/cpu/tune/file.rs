//! Tables on disk. A file that is not there, not readable or not right is no error: it only tells
//! less. One that is written is whole at any time, and several processes may write at once.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Choice, Table};

/// Larger files are not ours.
const LARGEST: u64 = 16 << 20;

/// Reads the table for a device, with a note on what is wrong with the file.
pub(super) fn read(path: &Path, device: &str) -> (Table, Option<String>) {
    let text = match text_of(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return (Table::default(), None),
        Err(error) => {
            let note = format!("{} cannot be read: {error}", path.display());
            return (Table::default(), Some(note));
        }
    };
    let (table, note) = Table::from_text(&text, device);
    (table, note.map(|note| format!("{} {note}", path.display())))
}

fn text_of(path: &Path) -> io::Result<String> {
    let size = fs::metadata(path)?.len();
    if size > LARGEST {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is too large"));
    }
    fs::read_to_string(path)
}

/// Puts choices into the file, beside those that others have put there meanwhile.
pub(super) fn update(
    path: &Path,
    device: &str,
    changes: &[(String, Option<Choice>)],
) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    // Who holds the lock has read what the last one wrote. Where files cannot be locked, what two
    // processes find in the same moment may be lost, and nothing else.
    let lock = File::create(path.with_extension("lock"))?;
    let _ = lock.lock();
    let (mut table, _) = read(path, device);
    for (key, choice) in changes {
        table.set(key, *choice);
    }
    let temporary = temporary(path);
    let written = write(&temporary, &table.to_text(device));
    let moved = written.and_then(|()| fs::rename(&temporary, path));
    if moved.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    moved
}

/// A name beside a path that nobody else uses.
fn temporary(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{count}.tmp", process::id()))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
