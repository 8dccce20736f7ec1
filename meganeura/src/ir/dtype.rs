use std::fmt;

/// The element type of a tensor, or of a buffer that holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit IEEE float.
    F32,
    /// 32-bit unsigned integer: labels, tokens, indices.
    U32,
    /// A truth value, stored as the float 0 or 1.
    Bool,
    /// The upper half of a 32-bit float. No tensor has it: it is how a plan keeps floats between
    /// kernels.
    BF16,
}

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 | DType::U32 | DType::Bool => 4,
            DType::BF16 => 2,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::U32 => "u32",
            DType::Bool => "bool",
            DType::BF16 => "bf16",
        })
    }
}
