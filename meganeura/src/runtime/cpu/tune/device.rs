//! Which device choices are for, and where they are kept.

use std::env;
use std::path::PathBuf;

/// The environment variable that names the directory of caches, or says `off`.
const VARIABLE: &str = "MEGANEURA_CACHE";

/// Where what tuning has found is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// In the directory that the environment variable `MEGANEURA_CACHE` names, else in the user's
    /// cache directory; nowhere if the variable says `off`.
    #[default]
    Standard,
    /// In this directory, which is made if it is not there.
    In(PathBuf),
    /// Nowhere: nothing is read or written.
    Off,
}

impl Cache {
    /// The directory, if there is one.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        match self {
            Cache::In(directory) => Some(directory.clone()),
            Cache::Off => None,
            Cache::Standard => match env::var_os(VARIABLE) {
                Some(value) if value == "off" || value.is_empty() => None,
                Some(directory) => Some(PathBuf::from(directory)),
                None => Some(user_directory()?.join("meganeura")),
            },
        }
    }
}

/// The directory that a platform has for a user's caches.
fn user_directory() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        Some(env::home_dir()?.join("Library/Caches"))
    } else {
        absolute("XDG_CACHE_HOME").or_else(|| Some(env::home_dir()?.join(".cache")))
    }
}

/// The processor, its instruction set and the number of threads, in words.
pub(super) fn name(instructions: &str, threads: usize) -> String {
    let processor = processor().unwrap_or_else(|| env::consts::ARCH.to_owned());
    format!("{processor}, {instructions}, threads {threads}")
}

/// What the processor calls itself.
#[cfg(target_arch = "x86_64")]
fn processor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    const FIRST: u32 = 0x8000_0002;
    const LAST: u32 = 0x8000_0004;
    #[allow(
        unused_unsafe,
        reason = "every such processor has the instruction, newer Rust knows"
    )]
    // SAFETY: every processor of this architecture has the instruction.
    let leaf = |leaf| unsafe { __cpuid(leaf) };
    if leaf(0x8000_0000).eax < LAST {
        return None;
    }
    let words = (FIRST..=LAST).map(leaf);
    let words = words.flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.trim_matches('\0').split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// What the system says of the processor.
#[cfg(not(target_arch = "x86_64"))]
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let part = field("CPU implementer").zip(field("CPU part"));
    part.map(|(maker, part)| format!("{} {maker} {part}", env::consts::ARCH))
}

/// A file's name for a device: its letters and digits.
pub(super) fn file_name(device: &str) -> String {
    let mut name = String::from("cpu");
    for word in device.split(|c: char| !c.is_ascii_alphanumeric()) {
        if !word.is_empty() {
            name.push('-');
            name.push_str(&word.to_ascii_lowercase());
        }
    }
    name.push_str(".txt");
    name
}
