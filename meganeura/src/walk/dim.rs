//! One size of a tensor.

use super::same_text;

/// One size: a number, a free name with constants around it (`2*time - 1`), or not known.
///
/// Arithmetic keeps what it can say exactly; everything else becomes [`Dim::UNKNOWN`], which agrees
/// with every other dim.
///
/// ```
/// use meganeura::walk::Dim;
///
/// const TIME: Dim = Dim::free("time");
/// assert_eq!(TIME.times(Dim::of(2)).minus(1).to_string(), "2*time - 1");
/// assert!(TIME.differs(TIME.plus(Dim::of(1))));
/// assert!(!TIME.differs(Dim::UNKNOWN));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dim {
    /// Empty for a number.
    name: &'static str,
    /// How often the name is taken; 0 for a number.
    scale: u32,
    offset: i64,
    known: bool,
}

impl Dim {
    /// A dim of which nothing is known.
    pub const UNKNOWN: Dim = Dim {
        name: "",
        scale: 0,
        offset: 0,
        known: false,
    };

    /// The number `size`.
    #[must_use]
    pub const fn of(size: usize) -> Dim {
        if size > i64::MAX as usize {
            return Dim::UNKNOWN;
        }
        Dim {
            offset: size as i64,
            known: true,
            ..Dim::UNKNOWN
        }
    }

    /// A free dim, which gets its number when the graph is built.
    #[must_use]
    pub const fn free(name: &'static str) -> Dim {
        Dim {
            name,
            scale: 1,
            offset: 0,
            known: true,
        }
    }

    /// Whether anything is known about it.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.known
    }

    /// The free name in it, if there is one.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        if self.scale > 0 {
            Some(self.name)
        } else {
            None
        }
    }

    /// Its number, if it is one.
    #[must_use]
    pub const fn value(self) -> Option<usize> {
        if self.known && self.scale == 0 && self.offset >= 0 {
            Some(self.offset as usize)
        } else {
            None
        }
    }

    /// Whether it is certainly a number below zero: what is left when too much was taken away.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.known && self.scale == 0 && self.offset < 0
    }

    /// Whether both are certainly the same.
    #[must_use]
    pub const fn equals(self, other: Dim) -> bool {
        self.known
            && other.known
            && self.scale == other.scale
            && self.offset == other.offset
            && same_text(self.name, other.name)
    }

    /// Whether both are known and not the same.
    ///
    /// Two free names count as different: a layer that needs them equal needs one name for both.
    #[must_use]
    pub const fn differs(self, other: Dim) -> bool {
        self.known && other.known && !self.equals(other)
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Dim) -> Dim {
        if !self.known || !other.known {
            return Dim::UNKNOWN;
        }
        if self.scale > 0 && other.scale > 0 && !same_text(self.name, other.name) {
            return Dim::UNKNOWN;
        }
        let name = if self.scale > 0 {
            self.name
        } else {
            other.name
        };
        match (
            self.scale.checked_add(other.scale),
            self.offset.checked_add(other.offset),
        ) {
            (Some(scale), Some(offset)) => Dim {
                name,
                scale,
                offset,
                known: true,
            },
            _ => Dim::UNKNOWN,
        }
    }

    /// `count` less.
    #[must_use]
    pub const fn minus(self, count: usize) -> Dim {
        if !self.known || count > i64::MAX as usize {
            return Dim::UNKNOWN;
        }
        match self.offset.checked_sub(count as i64) {
            Some(offset) => Dim { offset, ..self },
            None => Dim::UNKNOWN,
        }
    }

    /// The difference. It is known when `other` is a number, or the same name is in both.
    #[must_use]
    pub const fn less(self, other: Dim) -> Dim {
        if !self.known || !other.known || self.scale < other.scale {
            return Dim::UNKNOWN;
        }
        if other.scale > 0 && !same_text(self.name, other.name) {
            return Dim::UNKNOWN;
        }
        let scale = self.scale - other.scale;
        match self.offset.checked_sub(other.offset) {
            Some(offset) => Dim {
                name: if scale > 0 { self.name } else { "" },
                scale,
                offset,
                known: true,
            },
            None => Dim::UNKNOWN,
        }
    }

    /// The product, known when at least one of both is a number.
    #[must_use]
    pub const fn times(self, other: Dim) -> Dim {
        let (dim, factor) = match (self.value(), other.value()) {
            (_, Some(factor)) => (self, factor),
            (Some(factor), None) => (other, factor),
            (None, None) => return Dim::UNKNOWN,
        };
        if !dim.known || factor > u32::MAX as usize {
            return Dim::UNKNOWN;
        }
        match (
            dim.scale.checked_mul(factor as u32),
            dim.offset.checked_mul(factor as i64),
        ) {
            (Some(scale), Some(offset)) => Dim {
                name: if scale > 0 { dim.name } else { "" },
                scale,
                offset,
                known: true,
            },
            _ => Dim::UNKNOWN,
        }
    }

    /// The quotient, rounded down; known for numbers, and for names when the division is exact in
    /// the name. Division by zero is unknown.
    #[must_use]
    pub const fn over(self, divisor: usize) -> Dim {
        if divisor == 0 || divisor > u32::MAX as usize || !self.known {
            return Dim::UNKNOWN;
        }
        if !self.scale.is_multiple_of(divisor as u32) {
            return Dim::UNKNOWN;
        }
        Dim {
            scale: self.scale / divisor as u32,
            offset: self.offset.div_euclid(divisor as i64),
            ..self
        }
    }

    /// The quotient by another dim, known when that is a number.
    #[must_use]
    pub const fn divided(self, divisor: Dim) -> Dim {
        match divisor.value() {
            Some(divisor) => self.over(divisor),
            None => Dim::UNKNOWN,
        }
    }

    /// The dim with `with` in place of its free name.
    #[must_use]
    pub const fn replace(self, with: Dim) -> Dim {
        if self.scale == 0 {
            return self;
        }
        let plain = Dim {
            name: "",
            scale: 0,
            ..self
        };
        with.times(Dim::of(self.scale as usize)).plus(plain)
    }

    /// What the free name must be for the whole to be `whole`; unknown when nothing fits.
    #[must_use]
    pub const fn solve(self, whole: Dim) -> Dim {
        if self.scale == 0 || !self.known || !whole.known {
            return Dim::UNKNOWN;
        }
        let Some(offset) = whole.offset.checked_sub(self.offset) else {
            return Dim::UNKNOWN;
        };
        let scale = self.scale as i64;
        if offset.rem_euclid(scale) != 0 || !whole.scale.is_multiple_of(self.scale) {
            return Dim::UNKNOWN;
        }
        Dim {
            name: whole.name,
            scale: whole.scale / self.scale,
            offset: offset / scale,
            known: true,
        }
    }

    pub(crate) const fn parts(self) -> (u32, &'static str, i64) {
        (self.scale, self.name, self.offset)
    }
}

impl PartialEq for Dim {
    fn eq(&self, other: &Dim) -> bool {
        self.known == other.known && (!self.known || self.equals(*other))
    }
}

impl Eq for Dim {}

impl From<usize> for Dim {
    fn from(size: usize) -> Dim {
        Dim::of(size)
    }
}

impl std::fmt::Display for Dim {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(super::Message::EMPTY.dim(*self).as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Dim;

    #[test]
    fn arithmetic_is_exact_or_unknown() {
        let time = Dim::free("time");
        assert_eq!(time.minus(2).plus(Dim::of(2)), time);
        assert_eq!(time.times(Dim::of(2)).over(2), time);
        assert_eq!(time.over(2), Dim::UNKNOWN);
        assert_eq!(time.plus(Dim::free("batch")), Dim::UNKNOWN);
        assert_eq!(time.times(time), Dim::UNKNOWN);
        assert_eq!(time.less(time), Dim::of(0));
        assert_eq!(Dim::of(7).over(2), Dim::of(3));
        assert_eq!(Dim::of(7).over(0), Dim::UNKNOWN);
        assert!(Dim::of(3).minus(5).is_negative());
        assert_eq!(Dim::of(usize::MAX), Dim::UNKNOWN);
    }

    #[test]
    fn a_name_is_solved_for() {
        let declared = Dim::free("time").times(Dim::of(2)).minus(1);
        assert_eq!(declared.solve(Dim::of(9)), Dim::of(5));
        assert_eq!(declared.solve(Dim::of(8)), Dim::UNKNOWN);
        assert_eq!(declared.replace(Dim::of(5)), Dim::of(9));
    }

    #[test]
    fn it_prints_as_one_writes_it() {
        let time = Dim::free("time");
        assert_eq!(time.times(Dim::of(2)).minus(1).to_string(), "2*time - 1");
        assert_eq!(time.plus(Dim::of(3)).to_string(), "time + 3");
        assert_eq!(Dim::UNKNOWN.to_string(), "?");
        assert_eq!(Dim::of(3).minus(5).to_string(), "-2");
    }
}
