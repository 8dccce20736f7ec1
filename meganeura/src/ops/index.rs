//! Rows chosen by indices.

use super::rules::BASE;
use crate::ir::{
    Array, Attributes, Case, DType, Domain, Lowering, OpDef, Shape, Tensor, TensorType, Vjp,
};

pub const OPS: &[&OpDef] = &[&GATHER, &SCATTER_ADD];

/// Rows of a `[rows, width]` table at `u32` indices of any shape: `[.., width]`.
pub static GATHER: OpDef = OpDef {
    name: "gather",
    shape: |_, operands| {
        let (table, indices) = (&operands[0], &operands[1]);
        if table.dtype != DType::F32 || table.shape.rank() != 2 {
            return Err(format!(
                "takes rows of a table f32 [rows, width], got {table}"
            ));
        }
        if indices.dtype != DType::U32 {
            return Err(format!("takes u32 indices, got {indices}"));
        }
        Ok(TensorType::f32(
            [indices.shape.dims(), &[table.shape.last()]].concat(),
        ))
    },
    evaluate: |_, x, ty| {
        let width = ty.shape.last();
        let rows = x[1].data.iter().map(|&row| row as usize);
        let data = rows
            .flat_map(|row| x[0].data[row * width..][..width].to_vec())
            .collect();
        Array::new(ty.shape.clone(), data)
    },
    lowering: Lowering::Gather,
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(g.scatter_add(x[1], x[0].shape().dims()[0])), None]),
    cases: || {
        let case = |table: [usize; 2], indices: &[usize]| Case {
            attributes: Attributes::None,
            operands: vec![
                (Shape::from(table), Domain::Uniform(-2.0, 2.0)),
                (Shape::from(indices), Domain::Indices(table[0] as u32)),
            ],
        };
        vec![case([5, 3], &[4]), case([3, 8], &[2, 9]), case([7, 1], &[])]
    },
    ..BASE
};

/// `[.., width]` rows added into a table of zeros at `u32` indices, every occurrence counted.
pub static SCATTER_ADD: OpDef = OpDef {
    name: "scatter_add",
    shape: |attributes, operands| {
        let (rows, indices) = (&operands[0], &operands[1]);
        let Attributes::Rows(count) = attributes else {
            return Err("needs the number of rows".to_owned());
        };
        if indices.dtype != DType::U32 {
            return Err(format!("takes u32 indices, got {indices}"));
        }
        let rank = rows.shape.rank();
        if rank == 0 || rows.shape.dims()[..rank - 1] != *indices.shape.dims() {
            return Err(format!(
                "needs one row for each index, got {rows} and {indices}"
            ));
        }
        Ok(TensorType::f32([*count, rows.shape.last()]))
    },
    evaluate: |_, x, ty| {
        let width = ty.shape.last();
        let mut result = Array::from_fn(&ty.shape, |_| 0.0);
        for (position, &row) in x[1].data.iter().enumerate() {
            for column in 0..width {
                result.data[row as usize * width + column] += x[0].data[position * width + column];
            }
        }
        result
    },
    lowering: Lowering::ScatterAdd,
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(g.gather(x[1])), None]),
    cases: || {
        let case = |rows: &[usize], count: usize| Case {
            attributes: Attributes::Rows(count),
            operands: vec![
                (Shape::from(rows), Domain::Uniform(-2.0, 2.0)),
                (
                    Shape::from(&rows[..rows.len() - 1]),
                    Domain::Indices(count as u32),
                ),
            ],
        };
        vec![case(&[9, 3], 4), case(&[2, 5, 8], 3), case(&[0, 2], 3)]
    },
    ..BASE
};

impl<'g> Tensor<'g> {
    /// Rows of this `[rows, width]` table at `u32` indices: `[.., width]`.
    pub fn gather(self, indices: Tensor<'g>) -> Tensor<'g> {
        if let [rows, _] = self.shape().dims() {
            self.graph().bound_indices(indices, *rows);
        }
        self.graph()
            .apply(&GATHER, Attributes::None, &[self, indices])
    }

    /// These `[.., width]` rows added into a table of `rows` rows of zeros at `indices`.
    pub fn scatter_add(self, indices: Tensor<'g>, rows: usize) -> Tensor<'g> {
        self.graph().bound_indices(indices, rows);
        self.graph()
            .apply(&SCATTER_ADD, Attributes::Rows(rows), &[self, indices])
    }
}
