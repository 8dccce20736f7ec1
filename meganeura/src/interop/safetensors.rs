//! The safetensors format: named arrays in one file.
//!
//! A file is the header's length (eight bytes, little-endian), the header (JSON: for each tensor
//! element type, shape and place), and the elements. Reading is strict, as the format asks for:
//! the tensors follow one another without gap or overlap and fill the file. Writing replaces the
//! file as a whole or not at all.
//!
//! `F32` and `U32` tensors are written. Read are also other floats (`F16` and `BF16` exactly, `F64`
//! rounded), which become `f32`, and integers (`I64`, `I32`, `U8`, `BOOL`), which become `u32` and
//! must fit.

mod element;
mod header;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::atomic;
use crate::data::{HostArray, Values};
use header::Header;

/// Why a safetensors file, or a tensor of it, could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// The operating system could not read the file.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The operating system could not write the file; what was there before is untouched.
    #[error("cannot write `{}`: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is no valid safetensors file.
    #[error("`{}` is no valid safetensors file: {problem}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file has no tensor of this name.
    #[error("`{file}` has no tensor `{tensor}`; it has {others}")]
    Missing {
        /// The file.
        file: String,
        /// The tensor that was asked for.
        tensor: String,
        /// Some names that it does have.
        others: String,
    },
    /// A tensor is not of the expected shape or element type.
    #[error("tensor `{tensor}` of `{file}` is {found}, but {expected} is expected")]
    Mismatch {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Element type and shape in the file.
        found: String,
        /// Element type and shape that were asked for.
        expected: String,
    },
}

/// Named arrays, and remarks in text, as a safetensors file holds them.
///
/// ```
/// use meganeura::data::HostArray;
/// use meganeura::interop::safetensors::Tensors;
///
/// let path = std::env::temp_dir().join(format!("weights-{}.safetensors", std::process::id()));
/// let mut tensors = Tensors::default();
/// tensors.insert("hidden.0.bias", HostArray::new([2], vec![0.5, -0.5])?);
/// tensors.save(&path)?;
///
/// let tensors = Tensors::load(&path)?;
/// assert_eq!(tensors.f32("hidden.0.bias", &[2])?, [0.5, -0.5]);
/// assert!(tensors.f32("hidden.0.bias", &[3]).is_err());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tensors {
    arrays: BTreeMap<String, HostArray>,
    remarks: BTreeMap<String, String>,
    /// Where they were loaded from, for errors.
    source: Option<PathBuf>,
}

/// Two sets are equal when they hold the same, wherever they came from.
impl PartialEq for Tensors {
    fn eq(&self, other: &Self) -> bool {
        self.arrays == other.arrays && self.remarks == other.remarks
    }
}

impl Tensors {
    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SafetensorsError> {
        let path = path.as_ref();
        let open = || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let read = open().map_err(Problem::Io);
        let read = read.and_then(|(file, length)| Self::read_from(file, length));
        match read {
            Ok(tensors) => Ok(Self {
                source: Some(path.to_path_buf()),
                ..tensors
            }),
            Err(Problem::Io(source)) => Err(SafetensorsError::Read {
                path: path.to_path_buf(),
                source,
            }),
            Err(Problem::Format(problem)) => Err(SafetensorsError::Format {
                path: path.to_path_buf(),
                problem,
            }),
        }
    }

    /// Writes a file. It takes the place of `path` once it is complete and on the disk.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SafetensorsError> {
        let path = path.as_ref();
        atomic::replace(path, |writer| self.write_to(writer)).map_err(|source| {
            SafetensorsError::Write {
                path: path.to_path_buf(),
                source,
            }
        })
    }

    /// Adds an array, in the place of one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, array: HostArray) {
        self.arrays.insert(name.into(), array);
    }

    /// Takes an array out.
    pub fn remove(&mut self, name: &str) -> Option<HostArray> {
        self.arrays.remove(name)
    }

    /// Adds a remark to the file's `__metadata__`, in the place of one under the same key.
    pub fn set_remark(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.remarks.insert(key.into(), text.into());
    }

    /// The remark under `key`, if there is one.
    pub fn remark(&self, key: &str) -> Option<&str> {
        self.remarks.get(key).map(String::as_str)
    }

    /// The number of arrays.
    pub fn len(&self) -> usize {
        self.arrays.len()
    }

    /// Whether there is no array.
    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// All arrays, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &HostArray)> {
        self.arrays
            .iter()
            .map(|(name, array)| (name.as_str(), array))
    }

    /// The array `name`.
    pub fn get(&self, name: &str) -> Result<&HostArray, SafetensorsError> {
        self.arrays
            .get(name)
            .ok_or_else(|| SafetensorsError::Missing {
                file: self.file(),
                tensor: name.to_string(),
                others: self.some_names(),
            })
    }

    /// The values of the array `name`, which must hold `f32` and have this shape.
    pub fn f32(&self, name: &str, shape: &[usize]) -> Result<&[f32], SafetensorsError> {
        let array = self.get(name)?;
        match array.as_f32() {
            Some(values) if array.shape().dims() == shape => Ok(values),
            _ => Err(self.mismatch(name, array, "f32", shape)),
        }
    }

    /// The values of the array `name`, which must hold `u32` and have this shape.
    pub fn u32(&self, name: &str, shape: &[usize]) -> Result<&[u32], SafetensorsError> {
        let array = self.get(name)?;
        match array.as_u32() {
            Some(values) if array.shape().dims() == shape => Ok(values),
            _ => Err(self.mismatch(name, array, "u32", shape)),
        }
    }

    fn mismatch(
        &self,
        name: &str,
        array: &HostArray,
        element_type: &str,
        shape: &[usize],
    ) -> SafetensorsError {
        SafetensorsError::Mismatch {
            file: self.file(),
            tensor: name.to_string(),
            found: format!("{} {}", array.dtype(), array.shape()),
            expected: format!("{element_type} {shape:?}"),
        }
    }

    fn file(&self) -> String {
        match &self.source {
            Some(path) => path.display().to_string(),
            None => "tensors in memory".to_string(),
        }
    }

    fn some_names(&self) -> String {
        const SHOWN: usize = 12;
        if self.is_empty() {
            return "none".to_string();
        }
        let shown = self
            .arrays
            .keys()
            .take(SHOWN)
            .map(|name| format!("`{name}`"));
        let mut names = shown.collect::<Vec<_>>().join(", ");
        if self.len() > SHOWN {
            names += &format!(" and {} more", self.len() - SHOWN);
        }
        names
    }

    /// Reads a file's content, which is `length` bytes long.
    fn read_from(mut reader: impl Read, length: u64) -> Result<Self, Problem> {
        let header = Header::read(&mut reader, length)?;
        let mut arrays = BTreeMap::new();
        for tensor in header.tensors {
            let count = tensor.elements();
            let values = tensor.element_type.read(&mut reader, &tensor.name, count)?;
            let array = HostArray::new(tensor.shape, values);
            let array = array.map_err(|error| Problem::Format(error.to_string()))?;
            arrays.insert(tensor.name, array);
        }
        Ok(Self {
            arrays,
            remarks: header.remarks,
            source: None,
        })
    }

    fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        Header::of(&self.arrays, &self.remarks).write(writer)?;
        for array in self.arrays.values() {
            match array.values() {
                Values::F32(values) => write_words(writer, values.iter().map(|v| v.to_bits()))?,
                Values::U32(values) => write_words(writer, values.iter().copied())?,
            }
        }
        Ok(())
    }
}

/// What can go wrong before the file's name is known.
#[derive(Debug)]
enum Problem {
    Io(io::Error),
    Format(String),
}

fn write_words(writer: &mut impl Write, words: impl Iterator<Item = u32>) -> io::Result<()> {
    for word in words {
        writer.write_all(&word.to_le_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
