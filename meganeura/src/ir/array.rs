use super::Shape;

/// A dense array of doubles: what the oracle computes with.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The sizes of its axes.
    pub shape: Shape,
    /// Row-major elements, `shape.elements()` of them.
    pub data: Vec<f64>,
}

impl Array {
    /// An array of the given elements.
    ///
    /// # Panics
    /// When the number of elements is not the shape's.
    pub fn new(shape: impl Into<Shape>, data: Vec<f64>) -> Array {
        let shape = shape.into();
        assert_eq!(shape.elements(), data.len(), "an array of {shape}");
        Array { shape, data }
    }

    /// Each element from its index along every axis.
    pub fn from_fn(shape: &Shape, mut element: impl FnMut(&[usize]) -> f64) -> Array {
        let mut index = vec![0; shape.rank()];
        let mut data = Vec::with_capacity(shape.elements());
        for _ in 0..shape.elements() {
            data.push(element(&index));
            for axis in (0..shape.rank()).rev() {
                index[axis] += 1;
                if index[axis] < shape.dims()[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        Array {
            shape: shape.clone(),
            data,
        }
    }

    /// A function of every element.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Array {
        Array {
            shape: self.shape.clone(),
            data: self.data.iter().map(|&x| f(x)).collect(),
        }
    }

    /// A function of the elements of two arrays of one shape.
    pub fn zip(&self, other: &Array, f: impl Fn(f64, f64) -> f64) -> Array {
        let data = self
            .data
            .iter()
            .zip(&other.data)
            .map(|(&a, &b)| f(a, b))
            .collect();
        Array {
            shape: self.shape.clone(),
            data,
        }
    }

    /// The element at an index; axes of size 1 repeat.
    pub fn at(&self, index: &[usize]) -> f64 {
        let position = self
            .shape
            .dims()
            .iter()
            .zip(index)
            .fold(0, |position, (&dim, &i)| {
                position * dim + if dim == 1 { 0 } else { i }
            });
        self.data[position]
    }

    /// A function of each row (along the last axis), giving a row of the same length.
    pub fn map_rows(&self, f: impl Fn(&[f64]) -> Vec<f64>) -> Array {
        let width = self.shape.last().max(1);
        Array {
            shape: self.shape.clone(),
            data: self.data.chunks(width).flat_map(f).collect(),
        }
    }
}

/// The error function to double precision: its Maclaurin series inside |x| < 3, the
/// continued fraction of erfc outside (Abramowitz and Stegun 7.1.5 and 7.1.14).
pub(crate) fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    if a < 3.0 {
        let (mut term, mut sum) = (a, a);
        for n in 1..80 {
            let n = f64::from(n);
            term *= -a * a / n;
            sum += term / (2.0 * n + 1.0);
        }
        return (2.0 / std::f64::consts::PI.sqrt() * sum).copysign(x);
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    let fraction = (1..=60)
        .rev()
        .fold(a, |rest, n| a + f64::from(n) / 2.0 / rest);
    (1.0 - (-a * a).exp() / std::f64::consts::PI.sqrt() / fraction).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_has_its_published_values() {
        // Abramowitz and Stegun, table 7.1.
        for (x, value) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_8),
            (1.0, 0.842_700_792_9),
            (2.0, 0.995_322_265_0),
            (3.0, 0.999_977_909_5),
            (-1.0, -0.842_700_792_9),
            (7.0, 1.0),
        ] {
            assert!((erf(x) - value).abs() < 2e-10, "erf({x}) = {}", erf(x));
        }
    }
}
