//! Sibling weights: those that multiply one value, side by side in one buffer.
//!
//! Queries, keys and values are three products with one left operand; so are a gate and what it
//! lets through. Where the weights lie side by side as `[A|B|C]`, the three can be one product
//! x·[A|B|C] whose readers take slices, the gradient of x one product [a|b|c]·[A|B|C]ᵀ instead of
//! a sum of three, and the gradient of the weights one product xᵀ·[a|b|c] that ends in one update.
//!
//! It is done in three steps. [`find`] says, from the structure of a graph alone, which variables
//! share a buffer: weights, their biases, and the optimizer's moments of both, where all of a set
//! are updated alike. That must not depend on sizes that differ from step to step, since all steps
//! of a session share the buffers. [`pack`] puts the buffers in the place of the variables, which
//! become slices, and makes new values of all that a buffer holds at once. Which other products
//! become one is then a matter of rules: the e-graph finds and prices them
//! ([`optimize`](crate::egraph::optimize)).
//!
//! Nothing is copied for it: the values that stand side by side, the gradients a, b, c, are
//! written there by the kernels that compute them (see [`crate::schedule`]).

mod alike;
mod find;
mod pack;
mod rewrite;

pub use find::find;
pub use pack::pack;

use crate::ir::{Shape, Variable, VariableKind};

/// Variables that lie side by side in one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name of the buffer.
    pub name: String,
    /// What its variables are for.
    pub kind: VariableKind,
    /// The sizes before the last axis, which all have.
    pub lead: Vec<usize>,
    /// The variables, in order.
    pub pieces: Vec<Piece>,
}

/// A variable within a [`Group`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The variable.
    pub name: String,
    /// Its first column.
    pub start: usize,
    /// How many it has.
    pub size: usize,
}

impl Group {
    /// Variables that agree in kind and in all sizes but the last, side by side.
    fn of(variables: &[&Variable]) -> Group {
        let mut pieces: Vec<Piece> = Vec::with_capacity(variables.len());
        for variable in variables {
            pieces.push(Piece {
                name: variable.name.clone(),
                start: pieces.last().map_or(0, |piece| piece.start + piece.size),
                size: variable.shape.last(),
            });
        }
        let names: Vec<&str> = variables.iter().map(|v| v.name.as_str()).collect();
        let dims = variables[0].shape.dims();
        Group {
            name: names.join(" | "),
            kind: variables[0].kind,
            lead: dims[..dims.len() - 1].to_vec(),
            pieces,
        }
    }

    /// Elements of a row.
    pub fn columns(&self) -> usize {
        self.pieces.iter().map(|piece| piece.size).sum()
    }

    /// Rows of the buffer.
    pub fn rows(&self) -> usize {
        self.lead.iter().product()
    }

    /// The shape of the buffer.
    pub fn shape(&self) -> Shape {
        Shape::from([&self.lead[..], &[self.columns()]].concat())
    }
}
