use crate::ir::{Layout, Shape};

/// What a kernel runs over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Sizes of the outer axes.
    pub outer: Vec<usize>,
    /// The number of columns.
    pub columns: usize,
}

/// Which values of a domain a node of the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One for each row and column, in row-major order.
    Full,
    /// One for each row.
    Row,
    /// Complete only when the kernel ends.
    Outside,
}

impl Domain {
    /// A domain whose full values have this shape.
    pub fn of(shape: &Shape) -> Domain {
        match shape.dims() {
            [] => Domain {
                outer: Vec::new(),
                columns: 1,
            },
            [outer @ .., columns] => Domain {
                outer: outer.to_vec(),
                columns: *columns,
            },
        }
    }

    /// A domain over some axes, of which the last is the columns.
    pub fn over(axes: &[usize]) -> Domain {
        Domain::of(&Shape::from(axes))
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.outer.iter().product()
    }

    /// The number of full values.
    pub fn elements(&self) -> usize {
        self.rows() * self.columns
    }

    /// The shape of full values.
    pub fn shape(&self) -> Shape {
        Shape::from([&self.outer[..], &[self.columns]].concat())
    }

    /// The strides of a layout for each outer axis, and for the columns, when the layout's
    /// elements are those of a place in row-major order; `None` when no strides say it.
    pub fn strides(&self, layout: &Layout, place: Place) -> Option<(Vec<usize>, usize)> {
        match place {
            Place::Full => {
                let mut strides = layout.reshaped(&self.shape())?.strides;
                let columns = strides.pop()?;
                Some((strides, columns))
            }
            _ => Some((layout.reshaped(&Shape::from(&self.outer[..]))?.strides, 0)),
        }
    }

    /// Which place the base of a layout must have so that this place can use it as it is in
    /// the kernel; `None` when it cannot.
    pub fn place_of_base(&self, layout: &Layout, place: Place) -> Option<Place> {
        if layout.offset != 0 {
            return None;
        }
        let (rows, columns) = (self.rows(), self.columns);
        let fits = |stride: usize, expected: usize, dim: usize| dim == 1 || stride == expected;
        match place {
            Place::Full => {
                let flat = layout.reshaped(&Shape::from([rows, columns]))?.strides;
                if fits(flat[0], columns, rows) && fits(flat[1], 1, columns) {
                    Some(Place::Full)
                } else if fits(flat[0], 1, rows) && fits(flat[1], 0, columns) {
                    Some(Place::Row)
                } else {
                    None
                }
            }
            _ => {
                let flat = layout.reshaped(&Shape::from([rows]))?.strides;
                fits(flat[0], 1, rows).then_some(Place::Row)
            }
        }
    }
}
