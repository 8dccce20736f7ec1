use std::fmt;

use crate::ir::{CrossEntropy, DType, Graph, Tensor};

type Build = dyn for<'g> Fn(&'g Graph, &[Tensor<'g>], &[Tensor<'g>]) -> Tensor<'g>;

/// What training makes small: a scalar made of a model's outputs and of targets, which are
/// fields of the data set.
pub struct Loss {
    targets: Vec<(String, DType)>,
    build: Box<Build>,
    classes: bool,
}

impl Loss {
    /// The mean cross entropy of the first output, `[.., classes]` scores, with the labels in
    /// a `u32` field.
    pub fn cross_entropy(labels: &str) -> Loss {
        Loss {
            classes: true,
            ..Loss::custom(&[(labels, DType::U32)], |_, outputs, targets| {
                outputs[0].cross_entropy(targets[0])
            })
        }
    }

    /// The same with smoothed labels, and without the rows whose label is to be ignored.
    pub fn cross_entropy_with(labels: &str, how: CrossEntropy) -> Loss {
        Loss {
            classes: true,
            ..Loss::custom(&[(labels, DType::U32)], move |_, outputs, targets| {
                outputs[0].cross_entropy_with(targets[0], &how)
            })
        }
    }

    /// The mean binary cross entropy of the first output, taken as logits, with a float field
    /// of targets from 0 to 1.
    pub fn binary_cross_entropy(targets: &str) -> Loss {
        Loss::custom(&[(targets, DType::F32)], |_, outputs, targets| {
            outputs[0].binary_cross_entropy(targets[0]).mean_all()
        })
    }

    /// The mean of the squared differences of the first output and a float field.
    pub fn mean_squared_error(targets: &str) -> Loss {
        Loss::custom(&[(targets, DType::F32)], |_, outputs, targets| {
            outputs[0].mean_squared_error(targets[0])
        })
    }

    /// A loss of your own, from the fields it needs and a function of the model's outputs and
    /// those fields.
    pub fn custom(
        targets: &[(&str, DType)],
        build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>], &[Tensor<'g>]) -> Tensor<'g> + 'static,
    ) -> Loss {
        let targets = targets
            .iter()
            .map(|(name, dtype)| ((*name).to_owned(), *dtype))
            .collect();
        Loss {
            targets,
            build: Box::new(build),
            classes: false,
        }
    }

    /// The fields it needs.
    pub fn targets(&self) -> &[(String, DType)] {
        &self.targets
    }

    /// Whether the first target is the class that the first output should score highest.
    pub(super) fn is_classification(&self) -> bool {
        self.classes
    }

    pub(super) fn build<'g>(
        &self,
        graph: &'g Graph,
        outputs: &[Tensor<'g>],
        targets: &[Tensor<'g>],
    ) -> Tensor<'g> {
        if outputs.is_empty() {
            return graph.fail("the loss needs an output of the model, which puts out nothing");
        }
        let loss = (self.build)(graph, outputs, targets);
        if !loss.is_poisoned() && loss.shape().rank() != 0 {
            let shape = loss.shape();
            return graph.fail(format!(
                "a loss is one number, got {shape}: take its mean with `.mean_all()`"
            ));
        }
        loss
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss")
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}
