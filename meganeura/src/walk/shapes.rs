//! All tensors that flow along an edge.

use super::carry::Sum;
use super::{Dims, Message, same_text};
use crate::ir::DType;

/// What flows along an edge: some tensors, or the sentence why not.
///
/// A rule takes the shapes that flow into a layer and returns those that flow out of it:
///
/// ```
/// use meganeura::walk::{Dim, Dims, Message, Shapes};
///
/// /// Halves the last dim.
/// const fn halve(x: &Shapes) -> Shapes {
///     let x = x.first();
///     match x.last().value() {
///         Some(width) if width % 2 == 1 => Shapes::fail(Message::new("cannot halve ").dims(&x)),
///         _ => Shapes::one(x.with_last(x.last().over(2))),
///     }
/// }
///
/// const EVEN: Shapes = halve(&Shapes::one(Dims::of(&[Dim::free("batch"), Dim::of(6)])));
/// assert_eq!(EVEN.first().to_string(), "[batch, 3]");
/// assert_eq!(halve(&EVEN).problem().as_str(), "cannot halve [batch, 3]");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    first: Dims,
    /// The others, if there are any: the compiler has to look at every dim in every constant.
    others: Option<[Dims; Shapes::MAX_VALUES - 1]>,
    count: usize,
    /// Not even the number of tensors is known.
    open: bool,
    problem: Message,
    /// The path from the field where the problem is reported down to the layer that has it.
    place: Message,
}

impl Shapes {
    /// Tensors beyond these are not followed at compile time.
    pub const MAX_VALUES: usize = 4;

    /// Nothing is known, not even how many tensors there are: what an opaque layer puts out.
    pub const UNKNOWN: Shapes = Shapes {
        first: Dims::UNKNOWN,
        others: None,
        count: 1,
        open: true,
        problem: Message::EMPTY,
        place: Message::EMPTY,
    };

    /// No tensor.
    pub const NONE: Shapes = Shapes {
        count: 0,
        open: false,
        ..Shapes::UNKNOWN
    };

    /// One tensor.
    #[must_use]
    pub const fn one(dims: Dims) -> Shapes {
        Shapes::NONE.push(dims)
    }

    /// Several tensors.
    #[must_use]
    pub const fn many(dims: &[Dims]) -> Shapes {
        let mut shapes = Shapes::NONE;
        let mut index = 0;
        while index < dims.len() {
            shapes = shapes.push(dims[index]);
            index += 1;
        }
        shapes
    }

    /// Why the layer cannot work on what flows in. The sentence starts with a verb; the layer's name
    /// is put before it.
    #[must_use]
    pub const fn fail(problem: Message) -> Shapes {
        Shapes {
            problem,
            ..Shapes::UNKNOWN
        }
    }

    pub(crate) const fn missing(setting: &str) -> Shapes {
        let message = Message::new("needs ")
            .code(setting)
            .text(": write `#[layer(");
        Shapes::fail(message.text(setting).text(" = ...)]`"))
    }

    /// The same and one tensor more.
    #[must_use]
    pub const fn push(mut self, dims: Dims) -> Shapes {
        self.count += 1;
        self.with(self.count - 1, dims)
    }

    /// How many tensors there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Whether not even the number of tensors is known.
    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }

    /// The first tensor; unknown if there is none.
    #[must_use]
    pub const fn first(&self) -> Dims {
        self.get(0)
    }

    /// The tensor at `index`; unknown if there is none.
    #[must_use]
    pub const fn get(&self, index: usize) -> Dims {
        if index >= self.count || index >= Shapes::MAX_VALUES {
            return Dims::UNKNOWN;
        }
        match (index, &self.others) {
            (0, _) => self.first,
            (_, Some(others)) => others[index - 1],
            (_, None) => Dims::UNKNOWN,
        }
    }

    /// The same with another tensor at `index`, if there is one.
    #[must_use]
    pub const fn with(mut self, index: usize, dims: Dims) -> Shapes {
        if index >= self.count || index >= Shapes::MAX_VALUES {
            return self;
        }
        if index == 0 {
            self.first = dims;
            return self;
        }
        let mut others = match self.others {
            Some(others) => others,
            None => [Dims::UNKNOWN; Shapes::MAX_VALUES - 1],
        };
        others[index - 1] = dims;
        self.others = Some(others);
        self
    }

    /// Only the first tensor: the rule of a layer that keeps the shape.
    #[must_use]
    pub const fn same(&self) -> Shapes {
        Shapes::one(self.first())
    }

    /// Why there are no tensors; empty when all is well.
    #[must_use]
    pub const fn problem(&self) -> &Message {
        &self.problem
    }

    /// Whether a rule failed here.
    #[must_use]
    pub const fn failed(&self) -> bool {
        !self.problem.is_empty()
    }

    /// The failure to return when a tensor certainly has another dtype than `dtype`.
    ///
    /// ```
    /// # use meganeura::{ir::DType, walk::Shapes};
    /// const fn rule(x: &Shapes) -> Shapes {
    ///     if let Some(wrong) = x.unless(DType::F32) {
    ///         return wrong;
    ///     }
    ///     x.same()
    /// }
    /// assert!(!rule(&Shapes::UNKNOWN).failed());
    /// ```
    #[must_use]
    pub const fn unless(&self, dtype: DType) -> Option<Shapes> {
        let mut index = 0;
        while index < self.count {
            let dims = self.get(index);
            if dims.dtype_differs(dtype) {
                let message = Message::new("takes ").text(dtype_name(dtype));
                let message = message.text(" values but is given ").dims(&dims);
                let message = match dims.dtype() {
                    Some(given) => message.text(" of ").text(dtype_name(given)),
                    None => message,
                };
                return Some(Shapes::fail(message));
            }
            index += 1;
        }
        None
    }

    /// The failure to return when the layer is certainly given another number of values than
    /// `count`.
    #[must_use]
    pub const fn unless_count(&self, count: usize) -> Option<Shapes> {
        if self.open || self.count == count {
            return None;
        }
        let message = Message::new("takes ").count(count, "value");
        let message = message.text(" but is given ").number(self.count);
        Some(Shapes::fail(self.with_hint(message, count)))
    }

    /// Goes on with what was given, and what to write instead.
    const fn with_hint(&self, mut message: Message, count: usize) -> Message {
        let named = !self.first().name().is_empty();
        let shown = if self.count < Shapes::MAX_VALUES {
            self.count
        } else {
            Shapes::MAX_VALUES
        };
        let mut index = 0;
        while named && index < shown {
            let separator = if index == 0 { " (`" } else { "`, `" };
            message = self.path(message.text(separator), index);
            index += 1;
        }
        if named && shown > 0 {
            message = message.text("`)");
        }
        message = message.text(": write `from(");
        index = 0;
        while index < count && index < 26 {
            if index > 0 {
                message = message.text(", ");
            }
            message = if named && count < shown {
                self.path(message, index)
            } else {
                message.text("abcdefghijklmnopqrstuvwxyz".split_at(index).1.split_at(1).0)
            };
            index += 1;
        }
        message.text(")`")
    }

    /// Goes on with the name of a value, as one writes it in `from(...)`.
    const fn path(&self, message: Message, index: usize) -> Message {
        let dims = self.get(index);
        let message = message.text(dims.name());
        if dims.output().is_empty() {
            message
        } else {
            message.text(".").text(dims.output())
        }
    }

    /// The values of all parts, in order; the first problem among them.
    pub(crate) const fn gather(parts: &[&Shapes]) -> Shapes {
        let mut shapes = Shapes::NONE;
        let mut part = 0;
        while part < parts.len() {
            if parts[part].open {
                return Shapes::UNKNOWN.or_problem(parts);
            }
            let mut index = 0;
            while index < parts[part].count {
                shapes = shapes.push(parts[part].get(index));
                index += 1;
            }
            part += 1;
        }
        shapes.or_problem(parts)
    }

    /// The same, with the first problem among `others` if it has none of its own.
    pub(crate) const fn or_problem(mut self, others: &[&Shapes]) -> Shapes {
        let mut index = 0;
        while index < others.len() && !self.failed() {
            self.problem = others[index].problem;
            self.place = others[index].place;
            index += 1;
        }
        self
    }

    /// The same without its problem: what flows on from a failed layer is unknown, not wrong.
    pub(crate) const fn forgiven(&'static self) -> &'static Shapes {
        if self.failed() {
            &Shapes::UNKNOWN
        } else {
            self
        }
    }

    /// The same as it leaves the field `name`.
    pub(crate) const fn leaving(mut self, name: &'static str) -> Shapes {
        if self.failed() {
            self.place = prefixed(name, &self.place);
            return self;
        }
        let mut index = 0;
        while index < self.count && index < Shapes::MAX_VALUES {
            self = self.with(index, self.get(index).named(name));
            index += 1;
        }
        self
    }

    /// A problem of the part `name` of a layer.
    pub(crate) const fn inside(mut self, name: &'static str) -> Shapes {
        if self.failed() {
            self.place = prefixed(name, &self.place);
        }
        self
    }

    /// The output `name` of a layer that names its outputs.
    pub(crate) const fn output(&self, name: &'static str) -> Shapes {
        if self.failed() || self.open {
            return Shapes::UNKNOWN;
        }
        let mut index = 0;
        while index < self.count {
            if same_text(self.get(index).output(), name) {
                return Shapes::one(self.get(index));
            }
            index += 1;
        }
        let from = self.first().name();
        let mut message = Message::new("takes `").text(from).text(".").text(name);
        message = message.text("`, but `").text(from).text("` puts out ");
        index = 0;
        while index < self.count {
            if index > 0 {
                message = message.text(", ");
            }
            message = match self.get(index).output().is_empty() {
                true => message.number(index),
                false => message.text(self.get(index).output()),
            };
            index += 1;
        }
        Shapes::fail(message)
    }

    /// The output at `index`.
    pub(crate) const fn output_at(&self, index: usize) -> Shapes {
        if self.failed() || self.open {
            return Shapes::UNKNOWN;
        }
        if index >= self.count {
            let from = self.first().name();
            let message = Message::new("takes `").text(from).text(".").number(index);
            let message = message.text("`, but `").text(from).text("` puts out ");
            return Shapes::fail(message.count(self.count, "value").text(", counted from 0"));
        }
        Shapes::one(self.get(index))
    }

    /// The sum with a value of the same shape.
    pub(crate) const fn plus(&self, other: &Shapes, sum: Sum) -> Shapes {
        if self.failed() || other.failed() {
            return *self;
        }
        if self.count > 1 || other.count > 1 {
            let (whose, count) = match self.count {
                0 | 1 => ("is added to ", other.count),
                count => ("puts out ", count),
            };
            let message = Message::new(whose).count(count, "value");
            return Shapes::fail(message.text(": only one and one can be added"));
        }
        let (mine, others) = (self.first(), other.first());
        if mine.differs(&others) {
            let message = match sum {
                Sum::Residual => Message::new("is residual but turns ").dims(&others),
                Sum::Added => Message::new("adds ").dims(&others),
            };
            let message = message.text(match sum {
                Sum::Residual => " into ",
                Sum::Added => " to its ",
            });
            return Shapes::fail(message.bare_dims(&mine));
        }
        Shapes::one(mine.merge(&others))
    }

    /// Whether a problem is that of the layer itself, not of a part of it.
    pub(crate) const fn is_at_top(&self) -> bool {
        self.place.is_empty()
    }

    /// The sentence with the place, as it is shown at the field where the place starts.
    pub(crate) const fn sentence(&self) -> Message {
        let message = Message::new("layer `").message(&self.place);
        message.text("` ").message(&self.problem)
    }
}

const fn prefixed(name: &str, place: &Message) -> Message {
    let path = Message::new(name);
    if place.is_empty() {
        path
    } else {
        path.text(".").message(place)
    }
}

/// The dtype's name as one writes it.
pub(crate) const fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::U32 => "u32",
        DType::Bool => "bool",
        DType::BF16 => "bf16",
    }
}
