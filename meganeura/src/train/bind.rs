//! A data set's fields as a model's inputs.

use super::TrainError;
use crate::data::Batch;
use crate::ir::DType;
use crate::walk::TensorSpec;

/// The number of every free dim of a model's inputs, read off a batch.
pub(super) fn free_dims(
    inputs: &[TensorSpec],
    batch: &Batch,
) -> Result<Vec<(&'static str, usize)>, TrainError> {
    let mut dims: Vec<(&'static str, usize)> = Vec::new();
    for input in inputs {
        let Some(field) = batch.get(input.name) else {
            let fields: Vec<String> = batch
                .fields()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            return Err(TrainError::Mismatch(format!(
                "the model takes `{}`, the data set has {}: give a field that name with `Dataset::rename`",
                input.name,
                fields.join(", ")
            )));
        };
        let sizes = field.shape().dims();
        let wrong = |advice: &str| {
            Err(TrainError::Mismatch(format!(
                "the model takes `{}`: {}, a batch of the data set is {}: {advice}",
                input.name,
                input.dims,
                field.shape()
            )))
        };
        if field.dtype() != input.dims.dtype().unwrap_or(DType::F32) {
            return wrong("the element types differ");
        }
        if input.dims.rank() != Some(sizes.len()) {
            return wrong("bring the rows into shape with `Dataset::reshape`");
        }
        for (axis, &size) in sizes.iter().enumerate() {
            let dim = input.dims.dim(axis);
            match (dim.value(), dim.name()) {
                (Some(value), _) if value != size => {
                    return wrong("bring the rows into shape with `Dataset::reshape`");
                }
                (None, Some(name)) => match dims.iter().find(|(known, _)| *known == name) {
                    Some((_, known)) if *known != size => {
                        return wrong(&format!("`{name}` is {known} elsewhere"));
                    }
                    Some(_) => {}
                    None => dims.push((name, size)),
                },
                _ => {}
            }
        }
    }
    Ok(dims)
}
