//! The upper half of a float: its sign, its exponent and seven bits of its fraction.

use super::Precision;

/// The nearest there is, ties to even. Whatever is not a number stays so.
pub const fn round(value: f32) -> u16 {
    (Precision::BF16.round(value).to_bits() >> 16) as u16
}

/// The float that it stands for.
pub const fn widen(half: u16) -> f32 {
    f32::from_bits((half as u32) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_nearest() {
        for half in 0..=u16::MAX {
            let value = widen(half);
            if value.is_nan() {
                assert!(widen(round(value)).is_nan());
                continue;
            }
            assert_eq!(round(value), half);
            // Halfway to the next: the even one.
            let middle = f32::from_bits(value.to_bits() | 0x8000);
            if !middle.is_nan() {
                assert_eq!(round(middle), half + (half & 1));
                assert_eq!(round(f32::from_bits(middle.to_bits() - 1)), half);
                assert_eq!(round(f32::from_bits(middle.to_bits() + 1)), half + 1);
            }
        }
        assert!(widen(round(f32::from_bits(0x7f80_0001))).is_nan());
        assert_eq!(widen(round(f32::MAX)), f32::INFINITY);
    }
}
