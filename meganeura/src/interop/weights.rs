//! A model's values in files, under the names that others use.
//!
//! A [`Convention`] says how a file's names and matrices relate to those of a model. Loading is
//! strict: every value of the model must be in the file and the other way round, in the right
//! shape, and what does not fit is listed at once in a [`Difference`].

use std::fmt;

use super::safetensors::Tensors;
use crate::data::HostArray;
use crate::ir::{Shape, Variable, VariableKind};
use crate::runtime::{Session, SessionError};

/// How a file's names and matrices relate to those of a model.
///
/// ```
/// use meganeura::interop::weights::Convention;
///
/// let llama = Convention::torch()
///     .rename("blocks.{i}.attention.inner.query", "model.layers.{i}.self_attn.q_proj")
///     .rename("blocks.{i}", "model.layers.{i}");
/// assert_eq!(
///     llama.name("blocks.3.attention.inner.query.weight"),
///     "model.layers.3.self_attn.q_proj.weight"
/// );
/// assert_eq!(llama.name("blocks.3.mlp.bias"), "model.layers.3.mlp.bias");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Convention {
    /// Names here and there; `{i}` is any number, the same on both sides.
    renames: Vec<(String, String)>,
    /// Last parts of names that a file may have without the model knowing them.
    ignored: Vec<String>,
    transposed: bool,
}

impl Convention {
    /// The names and matrices of this library: `weight` of a linear layer is `[in, out]`.
    pub fn native() -> Convention {
        Convention::default()
    }

    /// The matrices of PyTorch: `weight` of a linear layer is `[out, in]`. The counters
    /// `num_batches_tracked` of its batch normalization are ignored.
    pub fn torch() -> Convention {
        Convention {
            transposed: true,
            ignored: vec!["num_batches_tracked".to_owned()],
            ..Convention::default()
        }
    }

    /// What stands under `here` in the model stands under `there` in the file: a layer with all
    /// that is in it, or a single parameter. `{i}` in both is any number. The first that fits a
    /// name decides.
    #[must_use]
    pub fn rename(mut self, here: &str, there: &str) -> Convention {
        self.renames.push((here.to_owned(), there.to_owned()));
        self
    }

    /// Does not mind values in the file whose name ends in `last` (one part or several), which the
    /// model does not know.
    #[must_use]
    pub fn ignore(mut self, last: &str) -> Convention {
        self.ignored.push(last.to_owned());
        self
    }

    /// Whether a file may have this name though the model does not know it.
    fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|last| {
            let before = name.strip_suffix(last.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
    }

    /// A model's name as the file has it.
    pub fn name(&self, name: &str) -> String {
        let renamed = self
            .renames
            .iter()
            .find_map(|(here, there)| translate(name, here, there));
        renamed.unwrap_or_else(|| name.to_owned())
    }

    fn is_transposed(&self, variable: &Variable) -> bool {
        self.transposed && variable.transposed
    }

    /// A variable's shape as the file has it.
    fn shape(&self, variable: &Variable) -> Shape {
        match *variable.shape.dims() {
            [rows, columns] if self.is_transposed(variable) => Shape::from([columns, rows]),
            _ => variable.shape.clone(),
        }
    }

    /// A variable's values as the file has them, or the other way round: the matrix has this shape.
    fn values(&self, variable: &Variable, shape: &Shape, values: &[f32]) -> Vec<f32> {
        match *shape.dims() {
            [rows, columns] if self.is_transposed(variable) => transposed(values, rows, columns),
            _ => values.to_vec(),
        }
    }
}

/// `name` with `there` in the place of `here`, which must match its first parts.
fn translate(name: &str, here: &str, there: &str) -> Option<String> {
    let mut rest = name.split('.');
    let mut numbers = Vec::new();
    if !here.is_empty() {
        for part in here.split('.') {
            let found = rest.next()?;
            match part {
                "{i}" if found.bytes().all(|byte| byte.is_ascii_digit()) => numbers.push(found),
                _ if part == found => {}
                _ => return None,
            }
        }
    }
    let mut numbers = numbers.into_iter();
    let there = there.split('.').filter(|part| !part.is_empty());
    let there = there.map(|part| match part {
        "{i}" => numbers.next().unwrap_or(part),
        part => part,
    });
    let parts: Vec<&str> = there.collect();
    let parts: Vec<&str> = parts.into_iter().chain(rest).collect();
    Some(parts.join("."))
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let column = |column: usize| (0..rows).map(move |row| values[row * columns + column]);
    (0..columns).flat_map(column).collect()
}

/// What a file and a model do not agree about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Names that the model needs and the file lacks.
    pub missing: Vec<String>,
    /// Names in the file that the model does not know.
    pub unexpected: Vec<String>,
    /// Names of values of another shape or element type.
    pub misshapen: Vec<Misshapen>,
}

/// A value of another shape than the model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshapen {
    /// Its name in the file.
    pub name: String,
    /// Its shape in the file, with the element type where that is wrong.
    pub found: String,
    /// The shape that the model needs in the file.
    pub expected: Shape,
}

impl Difference {
    /// Whether they agree about everything.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshapen.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file and the model differ:")?;
        for name in &self.missing {
            write!(f, "\n  missing: `{name}`")?;
        }
        for name in &self.unexpected {
            write!(f, "\n  unexpected: `{name}`")?;
        }
        for Misshapen {
            name,
            found,
            expected,
        } in &self.misshapen
        {
            write!(
                f,
                "\n  shape: `{name}` is {found}, the model needs {expected}"
            )?;
        }
        Ok(())
    }
}

/// Why values could not be loaded or collected.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file and the model differ; nothing was loaded.
    #[error("{0}")]
    Differ(Difference),
    /// The session could not take or give the values.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Tensors {
    /// Gives a session's model all its values. The session must know the model's variables, by
    /// [`Session::declare`] or [`Session::compile`].
    ///
    /// # Errors
    /// When anything is missing, unexpected or of another shape: all of that is told, and nothing
    /// is loaded. Or when the device fails.
    pub fn load_into(
        &self,
        session: &mut Session,
        convention: &Convention,
    ) -> Result<(), WeightsError> {
        let difference = self.difference(session, convention);
        if !difference.is_empty() {
            return Err(WeightsError::Differ(difference));
        }
        self.load_matching(session, convention).map(|_| ())
    }

    /// The same for what fits, leaving the rest alone; tells what did not fit.
    ///
    /// # Errors
    /// When the device fails.
    pub fn load_matching(
        &self,
        session: &mut Session,
        convention: &Convention,
    ) -> Result<Difference, WeightsError> {
        for variable in of_model(session) {
            let shape = convention.shape(&variable);
            let name = convention.name(&variable.name);
            if let Ok(values) = self.f32(&name, shape.dims()) {
                let values = convention.values(&variable, &shape, values);
                session.set_variable(&variable.name, &values)?;
            }
        }
        Ok(self.difference(session, convention))
    }

    /// What does not fit a session's model.
    pub fn difference(&self, session: &Session, convention: &Convention) -> Difference {
        let mut difference = Difference::default();
        let mut known = Vec::new();
        for variable in of_model(session) {
            let (name, expected) = (convention.name(&variable.name), convention.shape(&variable));
            known.push(name.clone());
            let Ok(array) = self.get(&name) else {
                difference.missing.push(name);
                continue;
            };
            let floats = array.as_f32().is_some();
            if floats && *array.shape() == expected {
                continue;
            }
            let found = match floats {
                true => array.shape().to_string(),
                false => format!("{} {}", array.dtype(), array.shape()),
            };
            difference.misshapen.push(Misshapen {
                name,
                found,
                expected,
            });
        }
        let unexpected = self.iter().map(|(name, _)| name.to_owned());
        difference.unexpected = unexpected
            .filter(|name| !known.contains(name) && !convention.ignores(name))
            .collect();
        difference
    }

    /// All values of a session's model.
    ///
    /// # Errors
    /// When the device fails.
    pub fn of_session(
        session: &mut Session,
        convention: &Convention,
    ) -> Result<Tensors, WeightsError> {
        let mut tensors = Tensors::default();
        for variable in of_model(session) {
            let values = session.variable(&variable.name)?;
            let values = convention.values(&variable, &variable.shape, &values);
            let array = HostArray::new(convention.shape(&variable), values);
            let array = array.map_err(|error| SessionError::Values {
                name: variable.name.clone(),
                expected: variable.shape.to_string(),
                found: error.to_string(),
            })?;
            tensors.insert(convention.name(&variable.name), array);
        }
        Ok(tensors)
    }
}

/// The variables that belong to the model, not to its training.
fn of_model(session: &Session) -> Vec<Variable> {
    let variables = session.variables();
    variables
        .filter(|variable| variable.kind != VariableKind::State)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Convention, transposed};

    #[test]
    fn names_are_translated_part_by_part() {
        let names = Convention::native()
            .rename("h.{i}.{i}.q", "layers.{i}.sub.{i}.query")
            .rename("head", "")
            .rename("h", "hidden");
        assert_eq!(
            names.name("h.3.14.q.weight"),
            "layers.3.sub.14.query.weight"
        );
        assert_eq!(names.name("h.3.x.q.weight"), "hidden.3.x.q.weight");
        assert_eq!(names.name("head.weight"), "weight");
        assert_eq!(names.name("heads.weight"), "heads.weight");
    }

    #[test]
    fn whole_parts_at_the_end_are_ignored() {
        let names = Convention::torch().ignore("embeddings.position_ids");
        assert!(names.ignores("layer1.0.bn1.num_batches_tracked"));
        assert!(names.ignores("embeddings.position_ids"));
        assert!(names.ignores("bert.embeddings.position_ids"));
        assert!(!names.ignores("bert.position_ids"));
        assert!(!names.ignores("my_num_batches_tracked"));
        assert!(!Convention::native().ignores("bn.num_batches_tracked"));
    }

    #[test]
    fn matrices_are_turned() {
        assert_eq!(
            transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3),
            [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
        );
    }
}
