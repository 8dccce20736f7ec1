//! Sums and products as the arithmetic they are computed with. Building a graph and pricing
//! a node go through the same code, so that what is charged is what is built.
//!
//! Operands that vary over less are combined first: numbers, then rows, and only the last
//! steps touch every element.

use super::language::Extents;

/// Something that arithmetic can be done with.
pub(super) trait Arithmetic {
    /// A value.
    type Value: Clone;
    /// What a value varies over.
    fn extents(&self, value: &Self::Value) -> Extents;
    /// A number.
    fn number(&mut self, value: f64) -> Self::Value;
    /// An instruction of two operands.
    fn binary(&mut self, op: Binary, a: Self::Value, b: Self::Value) -> Self::Value;
    /// An instruction of one operand.
    fn unary(&mut self, op: Unary, a: Self::Value) -> Self::Value;
}

/// Instructions of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Instructions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Negate,
    SquareRoot,
    ReciprocalSquareRoot,
    Reciprocal,
}

/// Operands that vary over the same.
type Level<T, V> = (Extents, Vec<(T, V)>);

/// Operands in groups that vary over the same, the smaller first.
fn levels<A: Arithmetic, T>(
    arithmetic: &A,
    operands: impl IntoIterator<Item = (T, A::Value)>,
) -> Vec<Level<T, A::Value>> {
    let mut levels: Vec<Level<T, A::Value>> = Vec::new();
    for (what, value) in operands {
        let extents = arithmetic.extents(&value);
        match levels.iter_mut().find(|level| level.0 == extents) {
            Some(level) => level.1.push((what, value)),
            None => levels.push((extents, vec![(what, value)])),
        }
    }
    levels.sort_by(|a, b| {
        let size = |level: &Extents| level.elements();
        size(&a.0).total_cmp(&size(&b.0)).then(a.0.cmp(&b.0))
    });
    levels
}

/// Σ coefficient · value. A number is a coefficient without a value.
pub(super) fn sum<A: Arithmetic>(
    arithmetic: &mut A,
    constant: f64,
    terms: impl IntoIterator<Item = (f64, A::Value)>,
) -> A::Value {
    let mut total: Option<Signed<A::Value>> = None;
    let mut constant = Some(constant).filter(|constant| *constant != 0.0);
    for (_, mut group) in levels(arithmetic, terms) {
        // Start from a term that is added as it stands.
        group.sort_by(|a, b| {
            let plain = |c: f64| (c != 1.0, c < 0.0);
            plain(a.0).cmp(&plain(b.0))
        });
        for (coefficient, value) in group {
            let size = coefficient.abs();
            let value = if size == 1.0 {
                value
            } else {
                let size = arithmetic.number(size);
                arithmetic.binary(Binary::Multiply, value, size)
            };
            let term = (coefficient < 0.0, value);
            total = Some(match total {
                None => term,
                Some(sum) => add(arithmetic, sum, term),
            });
        }
        // A number joins while the sum is still small.
        if let (Some(sum), Some(value)) = (total.clone(), constant.take()) {
            let number = arithmetic.number(value.abs());
            total = Some(add(arithmetic, sum, (value < 0.0, number)));
        }
    }
    match total {
        Some((true, total)) => arithmetic.unary(Unary::Negate, total),
        Some((false, total)) => total,
        None => arithmetic.number(constant.unwrap_or(0.0)),
    }
}

/// A value, and whether its negative is meant.
type Signed<V> = (bool, V);

fn add<A: Arithmetic>(
    arithmetic: &mut A,
    a: Signed<A::Value>,
    b: Signed<A::Value>,
) -> Signed<A::Value> {
    match (a.0, b.0) {
        (false, true) => (false, arithmetic.binary(Binary::Subtract, a.1, b.1)),
        (true, false) => (false, arithmetic.binary(Binary::Subtract, b.1, a.1)),
        (negative, _) => (negative, arithmetic.binary(Binary::Add, a.1, b.1)),
    }
}

/// Π value^(half / 2).
pub(super) fn product<A: Arithmetic>(
    arithmetic: &mut A,
    factors: impl IntoIterator<Item = (i16, A::Value)>,
) -> A::Value {
    let mut total: Option<A::Value> = None;
    for (_, group) in levels(arithmetic, factors) {
        let mut below: Option<A::Value> = None;
        for (half, value) in group {
            if half % 2 != 0 && half < 0 {
                let root = arithmetic.unary(Unary::ReciprocalSquareRoot, value.clone());
                total = multiply(arithmetic, total, root);
            } else if half % 2 != 0 {
                let root = arithmetic.unary(Unary::SquareRoot, value.clone());
                total = multiply(arithmetic, total, root);
            }
            let Some(power) = power(arithmetic, half.unsigned_abs() / 2, &value) else {
                continue;
            };
            if half < 0 {
                below = multiply(arithmetic, below, power);
            } else {
                total = multiply(arithmetic, total, power);
            }
        }
        if let Some(below) = below {
            total = Some(match total {
                Some(above) => arithmetic.binary(Binary::Divide, above, below),
                None => arithmetic.unary(Unary::Reciprocal, below),
            });
        }
    }
    match total {
        Some(total) => total,
        None => arithmetic.number(1.0),
    }
}

fn multiply<A: Arithmetic>(
    arithmetic: &mut A,
    total: Option<A::Value>,
    factor: A::Value,
) -> Option<A::Value> {
    Some(match total {
        Some(total) => arithmetic.binary(Binary::Multiply, total, factor),
        None => factor,
    })
}

/// A whole power by squaring, none for the 0th.
fn power<A: Arithmetic>(
    arithmetic: &mut A,
    mut exponent: u16,
    value: &A::Value,
) -> Option<A::Value> {
    let (mut square, mut result) = (value.clone(), None);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = multiply(arithmetic, result, square.clone());
        }
        exponent /= 2;
        if exponent > 0 {
            square = arithmetic.binary(Binary::Multiply, square.clone(), square);
        }
    }
    result
}
