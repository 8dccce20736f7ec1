use std::fmt;

/// The element type of a tensor. Every type is stored in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit IEEE float.
    F32,
    /// 32-bit unsigned integer: labels, tokens, indices.
    U32,
    /// A truth value, stored as the float 0 or 1.
    Bool,
}

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        4
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::U32 => "u32",
            DType::Bool => "bool",
        })
    }
}
