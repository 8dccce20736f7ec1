use std::fmt;

/// How exactly a training step multiplies matrices and keeps what it needs later.
///
/// What is ever rounded are operands of products and large values between kernels. What products
/// add up, and all parameters, moments, sums, norms and losses are 32-bit floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// 32-bit floats throughout.
    #[default]
    F32,
    /// The operands of large products are rounded to bfloat16, and large activations and gradients
    /// are kept as such, in two bytes each: 8 significant bits, and the range of 32-bit floats, so
    /// that no loss needs scaling.
    BF16,
}

impl Precision {
    /// A number as the operand of a product: the nearest there is, of two the even one. What is
    /// not finite stays so, and what rounds beyond the range becomes infinite.
    ///
    /// ```
    /// use meganeura::ir::Precision;
    ///
    /// assert_eq!(Precision::F32.round(1.0 + 1.0 / 256.0), 1.0 + 1.0 / 256.0);
    /// assert_eq!(Precision::BF16.round(1.0 + 1.0 / 256.0), 1.0);
    /// assert_eq!(Precision::BF16.round(1.0 + 3.0 / 256.0), 1.0 + 2.0 / 128.0);
    /// assert!(Precision::BF16.round(f32::NAN).is_nan());
    /// ```
    pub const fn round(self, value: f32) -> f32 {
        let bits = value.to_bits();
        match self {
            Precision::F32 => value,
            // The bits that make it one may all be among those that go.
            Precision::BF16 if value.is_nan() => f32::from_bits((bits | 1 << 22) & !0xffff),
            Precision::BF16 => {
                let even = (bits >> 16) & 1;
                f32::from_bits((bits + 0x7fff + even) & !0xffff)
            }
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::F32 => "f32",
            Precision::BF16 => "bf16",
        })
    }
}
