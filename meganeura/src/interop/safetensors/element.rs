//! The element types of files, and how each becomes an `f32` or a `u32`.

use std::io::{self, Read};

use super::Problem;
use crate::data::Values;

/// A type of elements that can be read. Only the first two are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElementType {
    F32,
    U32,
    F64,
    F16,
    BF16,
    I64,
    I32,
    U8,
    Bool,
}

const ALL: [ElementType; 9] = [
    ElementType::F32,
    ElementType::U32,
    ElementType::F64,
    ElementType::F16,
    ElementType::BF16,
    ElementType::I64,
    ElementType::I32,
    ElementType::U8,
    ElementType::Bool,
];

impl ElementType {
    /// That of values in memory.
    pub fn of(values: &Values) -> Self {
        match values {
            Values::F32(_) => Self::F32,
            Values::U32(_) => Self::U32,
        }
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::U32 | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::U8 | Self::Bool => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::U32 => "U32",
            Self::F64 => "F64",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::I64 => "I64",
            Self::I32 => "I32",
            Self::U8 => "U8",
            Self::Bool => "BOOL",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        ALL.into_iter()
            .find(|element_type| element_type.name() == name)
    }

    /// All names, for an error.
    pub fn names() -> String {
        ALL.map(Self::name).join(", ")
    }

    /// Reads `count` elements of the tensor `name`.
    pub fn read(self, reader: &mut impl Read, name: &str, count: usize) -> Result<Values, Problem> {
        match self {
            Self::F32 => numbers(reader, count, |bytes| Ok(f32::from_le_bytes(bytes))),
            Self::F64 => numbers(reader, count, |bytes| Ok(f64::from_le_bytes(bytes) as f32)),
            Self::F16 => numbers(reader, count, |bytes| Ok(half(u16::from_le_bytes(bytes)))),
            Self::BF16 => numbers(reader, count, |bytes| {
                Ok(f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
            }),
            Self::U32 => numbers(reader, count, |bytes| Ok(u32::from_le_bytes(bytes))),
            Self::I64 => numbers(reader, count, |bytes| {
                index(name, i64::from_le_bytes(bytes))
            }),
            Self::I32 => numbers(reader, count, |bytes| {
                index(name, i64::from(i32::from_le_bytes(bytes)))
            }),
            Self::U8 | Self::Bool => numbers(reader, count, |[byte]: [u8; 1]| Ok(u32::from(byte))),
        }
    }
}

/// An integer of a file as an index, if it is one.
fn index(name: &str, value: i64) -> Result<u32, Problem> {
    u32::try_from(value).map_err(|_| {
        Problem::Format(format!(
            "tensor `{name}` holds {value}, and integers are read as u32"
        ))
    })
}

/// The value of a number in half precision (IEEE 754 binary16), exactly.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f32::from(bits & 1023);
    match (exponent, fraction) {
        (31, 0.0) => sign * f32::INFINITY,
        (31, _) => f32::NAN.copysign(sign),
        (0, _) => sign * fraction * 2_f32.powi(-24),
        _ => sign * (1024.0 + fraction) * 2_f32.powi(exponent - 25),
    }
}

/// Elements are converted through a buffer of this many, so that the file's bytes are never all in
/// memory beside the values.
pub const BUFFERED: usize = 1 << 14;

fn numbers<const SIZE: usize, T>(
    reader: &mut impl Read,
    count: usize,
    decode: impl Fn([u8; SIZE]) -> Result<T, Problem>,
) -> Result<Values, Problem>
where
    Values: From<Vec<T>>,
{
    let mut buffer = vec![[0_u8; SIZE]; count.min(BUFFERED)];
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let chunk = (count - values.len()).min(BUFFERED);
        let chunk = &mut buffer[..chunk];
        reader.read_exact(chunk.as_flattened_mut())?;
        for &bytes in chunk.iter() {
            values.push(decode(bytes)?);
        }
    }
    Ok(values.into())
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    /// Every number of 16 bits against the standard's definition, in `f64`.
    #[test]
    fn half_precision_is_exact() {
        for bits in 0..=u16::MAX {
            let text = format!("{bits:016b}");
            let field = |range| f64::from(u16::from_str_radix(&text[range], 2).unwrap());
            let (sign, exponent, fraction) = (field(0..1), field(1..6), field(6..16));
            let size = match exponent as u32 {
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                0 => fraction / 1024.0 * 2_f64.powi(-14),
                _ => (1.0 + fraction / 1024.0) * 2_f64.powf(exponent - 15.0),
            };
            let expected = if sign == 1.0 { -size } else { size };
            let found = f64::from(half(bits));
            let same = found == expected && found.is_sign_negative() == expected.is_sign_negative();
            assert!(
                same || found.is_nan() && expected.is_nan(),
                "{text}: {found}"
            );
        }
    }
}
