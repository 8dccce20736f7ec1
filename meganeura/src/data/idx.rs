//! The IDX format, in which MNIST and its relatives come.
//!
//! Two zero bytes, a byte for the element type, a byte for the number of axes, each axis' size as
//! a big-endian 32-bit number, then the elements, big-endian too. Reading is strict: a file that
//! is shorter or longer than its header says is an error.

use std::fs;
use std::path::Path;

use super::DataError;
use super::array::elements;

/// The elements of an IDX file, in the file's own type.
#[derive(Clone, Debug, PartialEq)]
pub enum IdxValues {
    /// Type 8: unsigned bytes.
    U8(Vec<u8>),
    /// Type 9: signed bytes.
    I8(Vec<i8>),
    /// Type 11: 16-bit integers.
    I16(Vec<i16>),
    /// Type 12: 32-bit integers.
    I32(Vec<i32>),
    /// Type 13: 32-bit floating point.
    F32(Vec<f32>),
    /// Type 14: 64-bit floating point.
    F64(Vec<f64>),
}

impl IdxValues {
    /// The numbers as `f32`; 32-bit integers and `f64` are rounded to the nearest.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
            Self::I8(values) => values.iter().map(|&value| f32::from(value)).collect(),
            Self::I16(values) => values.iter().map(|&value| f32::from(value)).collect(),
            Self::I32(values) => values.iter().map(|&value| value as f32).collect(),
            Self::F32(values) => values.clone(),
            Self::F64(values) => values.iter().map(|&value| value as f32).collect(),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "unsigned bytes",
            Self::I8(_) => "signed bytes",
            Self::I16(_) => "16-bit integers",
            Self::I32(_) => "32-bit integers",
            Self::F32(_) => "32-bit floating point",
            Self::F64(_) => "64-bit floating point",
        }
    }
}

/// What an IDX file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct IdxArray {
    /// The sizes of its axes, at least one; the last runs fastest.
    pub shape: Vec<usize>,
    /// As many elements as the shape asks for.
    pub values: IdxValues,
}

impl IdxArray {
    /// The elements, when they are unsigned bytes; else an error that names `file`.
    pub fn into_bytes(self, file: &str) -> Result<Vec<u8>, DataError> {
        match self.values {
            IdxValues::U8(bytes) => Ok(bytes),
            other => Err(error(
                file,
                format!("holds {}, not unsigned bytes", other.type_name()),
                "check that it is the right file",
            )),
        }
    }
}

/// Reads an IDX file.
pub fn read(path: impl AsRef<Path>) -> Result<IdxArray, DataError> {
    let path = path.as_ref();
    let bytes = fs::read(path).map_err(|source| DataError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    parse(&bytes, &path.display().to_string())
}

/// Reads the bytes of an IDX file; `file` is its name in errors.
pub fn parse(bytes: &[u8], file: &str) -> Result<IdxArray, DataError> {
    let (element_type, shape, data) = header(bytes, file)?;
    let size = element_type.size();
    let expected = elements(&shape).and_then(|count| count.checked_mul(size));
    if expected != Some(data.len()) {
        let wanted = expected.map_or("more than can be addressed".into(), |n| n.to_string());
        return Err(error(
            file,
            format!(
                "has {} bytes of elements after its header, but {shape:?} elements of {size} \
                 bytes take {wanted}",
                data.len(),
            ),
            "it was cut off or damaged; fetch it again",
        ));
    }
    Ok(IdxArray {
        shape,
        values: element_type.decode(data),
    })
}

/// Element type, shape, and the bytes after the header.
fn header<'b>(
    bytes: &'b [u8],
    file: &str,
) -> Result<(ElementType, Vec<usize>, &'b [u8]), DataError> {
    let Some((&[zero0, zero1, code, rank], rest)) = bytes.split_first_chunk() else {
        return Err(error(
            file,
            format!("has {} bytes, too few for an IDX header", bytes.len()),
            "it was cut off; fetch it again",
        ));
    };
    if [zero0, zero1] == [0x1F, 0x8B] {
        return Err(error(
            file,
            "is compressed with gzip",
            "unpack it with `gunzip --keep` first",
        ));
    }
    if [zero0, zero1] != [0, 0] {
        return Err(error(
            file,
            format!("starts with the bytes {zero0:#04x} {zero1:#04x} where IDX has two zeros"),
            "check that it is an uncompressed IDX file",
        ));
    }
    let Some(element_type) = ElementType::from_code(code) else {
        return Err(error(
            file,
            format!("has the element type {code:#04x}; IDX knows 0x08, 0x09 and 0x0b to 0x0e"),
            "check that it is an uncompressed IDX file",
        ));
    };
    let rank = usize::from(rank);
    let Some((sizes, data)) = rest.split_at_checked(4 * rank).filter(|_| rank > 0) else {
        return Err(error(
            file,
            format!(
                "announces {rank} axes and has {} bytes for their sizes",
                rest.len()
            ),
            "it was cut off or damaged; fetch it again",
        ));
    };
    let (sizes, _) = sizes.as_chunks();
    let shape = sizes.iter().map(|&size| u32::from_be_bytes(size) as usize);
    Ok((element_type, shape.collect(), data))
}

#[derive(Clone, Copy)]
enum ElementType {
    U8,
    I8,
    I16,
    I32,
    F32,
    F64,
}

impl ElementType {
    fn from_code(code: u8) -> Option<Self> {
        match code {
            0x08 => Some(Self::U8),
            0x09 => Some(Self::I8),
            0x0B => Some(Self::I16),
            0x0C => Some(Self::I32),
            0x0D => Some(Self::F32),
            0x0E => Some(Self::F64),
            _ => None,
        }
    }

    /// Bytes per element.
    fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn decode(self, data: &[u8]) -> IdxValues {
        match self {
            Self::U8 => IdxValues::U8(data.to_vec()),
            Self::I8 => IdxValues::I8(big_endian(data, i8::from_be_bytes)),
            Self::I16 => IdxValues::I16(big_endian(data, i16::from_be_bytes)),
            Self::I32 => IdxValues::I32(big_endian(data, i32::from_be_bytes)),
            Self::F32 => IdxValues::F32(big_endian(data, f32::from_be_bytes)),
            Self::F64 => IdxValues::F64(big_endian(data, f64::from_be_bytes)),
        }
    }
}

fn big_endian<T, const N: usize>(data: &[u8], decode: fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, _) = data.as_chunks();
    chunks.iter().map(|&chunk| decode(chunk)).collect()
}

fn error(file: &str, problem: impl Into<String>, advice: &str) -> DataError {
    DataError::File {
        file: file.to_string(),
        problem: problem.into(),
        advice: advice.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::random::Stream;

    fn idx(code: u8, shape: &[u32], data: &[u8]) -> Vec<u8> {
        let sizes = shape.iter().flat_map(|size| size.to_be_bytes());
        let start = [0, 0, code, shape.len() as u8];
        start
            .into_iter()
            .chain(sizes)
            .chain(data.iter().copied())
            .collect()
    }

    fn message(bytes: &[u8]) -> String {
        parse(bytes, "folder/file").unwrap_err().to_string()
    }

    #[test]
    fn every_element_type_is_read_big_endian() {
        let cases: [(u8, &[u8], IdxValues); 6] = [
            (0x08, &[1, 255], IdxValues::U8(vec![1, 255])),
            (0x09, &[1, 255], IdxValues::I8(vec![1, -1])),
            (0x0B, &[1, 2, 0xFF, 0xFE], IdxValues::I16(vec![258, -2])),
            (
                0x0C,
                &[0, 0, 1, 0, 255, 255, 255, 255],
                IdxValues::I32(vec![256, -1]),
            ),
            (
                0x0D,
                &[0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0],
                IdxValues::F32(vec![1.0, -2.0]),
            ),
            (
                0x0E,
                &[0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0],
                IdxValues::F64(vec![1.0, -2.0]),
            ),
        ];
        for (code, data, values) in cases {
            let array = parse(&idx(code, &[2, 1], data), "file").unwrap();
            assert_eq!(
                array,
                IdxArray {
                    shape: vec![2, 1],
                    values
                }
            );
        }
        let bytes = parse(&idx(0x09, &[2], &[1, 255]), "file").unwrap();
        assert_eq!(bytes.values.to_f32(), [1.0, -1.0]);
    }

    #[test]
    fn errors_say_what_was_expected_and_what_to_do() {
        assert_eq!(
            message(&idx(0x08, &[2, 3], &[0; 5])),
            "`folder/file` has 5 bytes of elements after its header, but [2, 3] elements of 1 \
             bytes take 6: it was cut off or damaged; fetch it again"
        );
        assert!(message(&idx(0x0C, &[1], &[0; 5])).contains("has 5 bytes"));
        assert!(message(&[]).contains("has 0 bytes, too few"));
        assert!(message(&[0x1F, 0x8B, 8, 0, 0]).contains("`gunzip --keep`"));
        assert!(message(&[1, 0, 8, 1, 0, 0, 0, 0]).contains("0x01 0x00"));
        assert!(message(&idx(0x0A, &[1], &[0])).contains("element type 0x0a"));
        assert!(message(&idx(0x08, &[], &[0])).contains("announces 0 axes"));
        assert!(message(&[0, 0, 8, 3, 0, 0, 0, 1]).contains("announces 3 axes and has 4 bytes"));
        let huge = idx(0x0E, &[u32::MAX; 255], &[0; 8]);
        assert!(message(&huge).contains("more than can be addressed"));
    }

    #[test]
    fn an_axis_of_size_zero_is_legal() {
        let array = parse(&idx(0x08, &[0, 28, 28], &[]), "file").unwrap();
        assert_eq!(array.shape, [0, 28, 28]);
        assert_eq!(array.values, IdxValues::U8(vec![]));
    }

    #[test]
    fn no_prefix_of_a_file_is_a_file() {
        let whole = idx(0x0B, &[3, 2], &[7; 12]);
        assert!(parse(&whole, "file").is_ok());
        for length in 0..whole.len() {
            assert!(parse(&whole[..length], "file").is_err(), "{length}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(parse(&longer, "file").is_err());
    }

    /// Damaged files never panic, and what is accepted accounts for every byte.
    #[test]
    fn damaged_files_are_refused_or_consistent() {
        let whole = idx(0x0B, &[3, 2], &[7; 12]);
        let (mut accepted, mut refused) = (0, 0);
        for round in 0..20_000 {
            let stream = Stream::new(1, round);
            let mut bytes = whole.clone();
            for change in 0..1 + stream.below(0, 4) {
                let position = stream.below(3 * change + 1, bytes.len() as u64) as usize;
                // Small numbers make likely headers, any byte makes unlikely ones.
                let any = stream.bits(8 * change + 100) as u8;
                bytes[position] = if stream.below(3 * change + 2, 2) == 0 {
                    any % 16
                } else {
                    any
                };
            }
            bytes.truncate(bytes.len() - stream.below(90, 3) as usize);
            match parse(&bytes, "file") {
                Ok(array) => {
                    accepted += 1;
                    let count = array.shape.iter().product::<usize>();
                    assert_eq!(array.values.to_f32().len(), count);
                    let size = ElementType::from_code(bytes[2]).unwrap().size();
                    assert_eq!(4 + 4 * array.shape.len() + count * size, bytes.len());
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().starts_with("`file` "));
                }
            }
        }
        assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
    }
}
