//! Vectors of floats and the straight loops over them that programs are made of.
//!
//! One source serves every instruction set: [`lanes::Lanes`] is what a vector can do,
//! [`math`] the functions written with it, [`steps`] the loops, instantiated once for each
//! instruction set and chosen once at run time.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;
pub(super) mod machine;
mod math;
mod rows;
pub(super) mod softmax;
mod steps;
#[cfg(test)]
mod tests;

pub(super) use rows::{RowMoves, Rows};
pub(super) use steps::{Form, Kind, PairOp, VectorFn, combine, lookup};

/// An instruction set that the steps are instantiated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstructionSet {
    /// AVX-512 F, DQ, VL and BW.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Whatever the compiler was told to build for (NEON on 64-bit ARM).
    Portable,
}

impl InstructionSet {
    /// The best that this machine has.
    pub(super) fn detect() -> Self {
        Self::available()[0]
    }

    /// All that this machine has, the best first.
    pub(super) fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw");
            if wide && fma {
                sets.push(Self::Avx512);
            }
            if fma {
                sets.push(Self::Avx2);
            }
        }
        sets.push(Self::Portable);
        sets
    }

    /// Whether steps may become machine code of this set.
    pub(super) fn fuses(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("bmi2"),
            _ => false,
        }
    }

    /// Its name, for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "AVX2",
            Self::Portable if cfg!(target_arch = "aarch64") => "NEON",
            Self::Portable => "portable",
        }
    }
}
