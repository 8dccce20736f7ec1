//! What a model declares of its inputs, bound to what arrives.

use super::{Dim, Dims, Message, Shapes, same_text};
use crate::walk::shapes::dtype_name;

/// An input or output as a model declares it: `x: [batch, time] as u32`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorSpec {
    /// The name in `input(...)` or `output(...)`; empty for the one output of `output = ...`.
    pub name: &'static str,
    /// Its dims, in which free names stand for themselves, and its dtype. Unknown when the model
    /// takes any.
    pub dims: Dims,
}

/// What the free names of a model's declaration stand for.
#[derive(Clone, Copy, Debug)]
pub struct Bindings {
    names: [&'static str; Bindings::MAX],
    dims: [Dim; Bindings::MAX],
    count: usize,
    /// A model that is looked at on its own: its free names stay free.
    standalone: bool,
}

/// Whether what arrives fits, and with which meaning of the names.
struct Bound {
    bindings: Bindings,
    dims: Dims,
    problem: Message,
}

impl Bindings {
    /// Further free names are not followed.
    const MAX: usize = 12;

    const fn new(standalone: bool) -> Bindings {
        Bindings {
            names: [""; Bindings::MAX],
            dims: [Dim::UNKNOWN; Bindings::MAX],
            count: 0,
            standalone,
        }
    }

    /// What `name` stands for.
    const fn get(&self, name: &'static str) -> Dim {
        let mut index = 0;
        while index < self.count {
            if same_text(self.names[index], name) {
                return self.dims[index];
            }
            index += 1;
        }
        if self.standalone {
            Dim::free(name)
        } else {
            Dim::UNKNOWN
        }
    }

    const fn set(mut self, name: &'static str, dim: Dim) -> Bindings {
        if self.count < Bindings::MAX && dim.is_known() {
            self.names[self.count] = name;
            self.dims[self.count] = dim;
            self.count += 1;
        }
        self
    }

    /// The declared dims with every name replaced by what it stands for.
    #[must_use]
    pub const fn resolve(&self, declared: &Dims) -> Dims {
        let mut dims = *declared;
        let Some(rank) = declared.rank() else {
            return dims;
        };
        let mut axis = 0;
        while axis < rank {
            if let Some(name) = dims.dim(axis).name() {
                dims = dims.with(axis, dims.dim(axis).replace(self.get(name)));
            }
            axis += 1;
        }
        dims
    }

    const fn bind(self, declared: &TensorSpec, given: &Dims) -> Bound {
        let wanted = &declared.dims;
        let mut bound = Bound {
            bindings: self,
            dims: self.resolve(wanted).named(declared.name),
            problem: Message::EMPTY,
        };
        if let Some(dtype) = wanted.dtype()
            && given.dtype_differs(dtype)
            && let Some(other) = given.dtype()
        {
            let message = Message::new("takes ").code(declared.name).text(" as ");
            let message = message.text(dtype_name(dtype)).text(" but is given ");
            bound.problem = message.dims(given).text(" of ").text(dtype_name(other));
            return bound;
        }
        let (Some(rank), Some(_)) = (wanted.rank(), given.rank()) else {
            bound.dims = bound.dims.merge(given);
            return bound;
        };
        let message = Message::new("takes ").code(declared.name).text(": ");
        let message = message.bare_dims(wanted).text(" but is given ").dims(given);
        if given.rank_differs(rank) {
            bound.problem = message;
            return bound;
        }
        let mut axis = 0;
        while axis < rank {
            let (want, have) = (wanted.dim(axis), given.dim(axis));
            axis += 1;
            let Some(name) = want.name() else {
                if want.differs(have) {
                    bound.problem = message;
                    return bound;
                }
                continue;
            };
            let meaning = bound.bindings.get(name);
            if meaning.is_known() {
                if want.replace(meaning).differs(have) {
                    let other = want.solve(have);
                    let message = message.text(": ").code(name).text(" is ").dim(meaning);
                    bound.problem = match other.is_known() {
                        true => message.text(" and ").dim(other),
                        false => message,
                    };
                    return bound;
                }
            } else {
                let solved = want.solve(have);
                if !solved.is_known() && have.value().is_some() {
                    bound.problem = message.text(": no ").code(name).text(" fits");
                    return bound;
                }
                bound.bindings = bound.bindings.set(name, solved);
            }
        }
        bound.dims = bound.bindings.resolve(wanted).merge(given);
        bound.dims = bound.dims.named(declared.name);
        bound
    }
}

/// A model's inputs, bound.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What the free names stand for.
    pub bindings: Bindings,
    /// The inputs as the model's fields see them, or why they do not fit.
    pub inputs: Shapes,
}

impl Entry {
    /// Binds what is given to what is declared. `standalone` is a model looked at on its own, to
    /// which nothing is given.
    #[must_use]
    pub const fn new(
        missing: &'static str,
        standalone: bool,
        given: &Shapes,
        declared: &[TensorSpec],
    ) -> Entry {
        let mut entry = Entry {
            bindings: Bindings::new(standalone),
            inputs: Shapes::NONE,
        };
        if !missing.is_empty() {
            entry.inputs = Shapes::missing(missing);
            return entry;
        }
        if given.failed() {
            entry.inputs = *given;
            return entry;
        }
        if !standalone && let Some(wrong) = given.unless_count(declared.len()) {
            entry.inputs = wrong;
            return entry;
        }
        let mut problem = Message::EMPTY;
        let mut index = 0;
        while index < declared.len() {
            let bound = entry.bindings.bind(&declared[index], &given.get(index));
            entry.bindings = bound.bindings;
            entry.inputs = entry.inputs.push(bound.dims);
            if problem.is_empty() {
                problem = bound.problem;
            }
            index += 1;
        }
        if !problem.is_empty() {
            entry.inputs = Shapes::fail(problem);
        }
        entry
    }

    /// What the model puts out: `given` checked against what is declared, under the declared names.
    #[must_use]
    pub const fn leave(&self, given: &Shapes, declared: &[TensorSpec]) -> Shapes {
        let undeclared = !given.is_open() && given.count() != declared.len();
        if undeclared || given.failed() || self.inputs.failed() {
            return *given;
        }
        let mut outputs = *given;
        let mut index = 0;
        while index < declared.len() {
            let TensorSpec { name, dims } = declared[index];
            let wanted = self.bindings.resolve(&dims);
            let found = given.get(index);
            if wanted.differs(&found) {
                let message = Message::new("puts out ")
                    .dims(&found)
                    .text(" but declares output");
                let message = match name.is_empty() {
                    true => message.text(" = "),
                    false => message.text(" ").code(name).text(": "),
                };
                return Shapes::fail(message.bare_dims(&wanted));
            }
            if let Some(dtype) = wanted.dtype()
                && found.dtype_differs(dtype)
                && let Some(other) = found.dtype()
            {
                let message = Message::new("puts out ").dims(&found).text(" of ");
                let message = message.text(dtype_name(other)).text(" but declares ");
                return Shapes::fail(message.text(dtype_name(dtype)));
            }
            outputs = outputs.with(index, found.merge(&wanted).with_output(name));
            index += 1;
        }
        outputs
    }
}

#[cfg(test)]
mod tests {
    use super::{Dim, Dims, Entry, Shapes, TensorSpec};

    const TIME: Dim = Dim::free("time");
    const DECLARED: [TensorSpec; 1] = [TensorSpec {
        name: "x",
        dims: Dims::of(&[TIME, TIME.minus(2), Dim::of(4)]),
    }];

    fn enter(sizes: [usize; 3]) -> Entry {
        let given = Shapes::one(Dims::of(&sizes.map(Dim::of)).named("y"));
        Entry::new("", false, &given, &DECLARED)
    }

    #[test]
    fn names_are_unified() {
        assert!(!enter([5, 3, 4]).inputs.failed());
        assert_eq!(
            enter([5, 4, 4]).inputs.problem().as_str(),
            "takes `x`: [time, time - 2, 4] but is given [5, 4, 4] (`y`): `time` is 5 and 6"
        );
        assert_eq!(
            enter([5, 3, 6]).inputs.problem().as_str(),
            "takes `x`: [time, time - 2, 4] but is given [5, 3, 6] (`y`)"
        );
    }

    #[test]
    fn outputs_are_checked_with_what_the_names_stand_for() {
        let declared = [TensorSpec {
            name: "",
            dims: Dims::of(&[TIME.times(Dim::of(2))]),
        }];
        let leave = |size| {
            let found = Shapes::one(Dims::of(&[Dim::of(size)]).named("last"));
            enter([5, 3, 4]).leave(&found, &declared)
        };
        assert!(!leave(10).failed());
        assert_eq!(
            leave(9).problem().as_str(),
            "puts out [9] (`last`) but declares output = [10]"
        );
    }
}
