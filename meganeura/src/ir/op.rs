use std::fmt;
use std::hash::{Hash, Hasher};

use super::{
    Array, Assembly, AttentionPart, Combine, Convolution, DType, Labels, Layout, Pool, Rotation,
    ScalarOp, Shape, Sight, Steps, Tensor, Window,
};

/// A float that compares and hashes by its bits, for use in attributes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number(u64);

impl Number {
    /// The number with this value.
    pub fn new(value: f64) -> Number {
        Number(value.to_bits())
    }

    /// Its value.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

/// What an op needs to know besides its operands.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Attributes {
    /// Nothing.
    #[default]
    None,
    /// A number: a constant's value, an epsilon.
    Number(Number),
    /// The axes a reduction runs over, ascending.
    Axes(Vec<usize>),
    /// A new order of the axes: result axis `i` is operand axis `permutation[i]`.
    Permutation(Vec<usize>),
    /// The result's shape.
    Shape(Shape),
    /// A number of rows.
    Rows(usize),
    /// A shape and one of its axes.
    ShapeAxis(Shape, usize),
    /// The result's element type.
    DType(DType),
    /// How queries see keys.
    Sight(Sight),
    /// How labels count.
    Labels(Labels),
    /// How rows are rotated by their positions.
    Rotation(Rotation),
    /// The places that are taken along each axis.
    Slice(Vec<Steps>),
    /// Where operands go in the result.
    Assembly(Assembly),
    /// A window along an axis.
    Window(Window),
    /// How a kernel moves over its input.
    Convolution(Convolution),
    /// How a pool's window moves, and whether padding counts in its mean.
    Pool(Pool, bool),
    /// A leaf: its name and what it holds.
    Named(String, Shape, DType),
}

impl Attributes {
    /// An attribute that is a number.
    pub fn number(value: f64) -> Attributes {
        Attributes::Number(Number::new(value))
    }

    /// The number; NaN where the attribute is none, which no shape rule lets through.
    pub fn as_number(&self) -> f64 {
        if let Attributes::Number(number) = self {
            number.value()
        } else {
            f64::NAN
        }
    }

    /// The axes of a reduction, or the permutation.
    pub fn as_axes(&self) -> &[usize] {
        match self {
            Attributes::Axes(axes) | Attributes::Permutation(axes) => axes,
            _ => &[],
        }
    }

    /// Where operands go in the result.
    pub fn as_assembly(&self) -> Option<&Assembly> {
        match self {
            Attributes::Assembly(assembly) => Some(assembly),
            _ => None,
        }
    }
}

/// The type of a tensor: sizes and element type.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TensorType {
    /// Sizes of the axes.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

impl TensorType {
    /// A type of this shape and element type.
    pub fn new(shape: impl Into<Shape>, dtype: DType) -> TensorType {
        TensorType {
            shape: shape.into(),
            dtype,
        }
    }

    /// Floats of this shape.
    pub fn f32(shape: impl Into<Shape>) -> TensorType {
        TensorType::new(shape, DType::F32)
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dtype, self.shape)
    }
}

/// An op's result type from its operands' types, or what is wrong with them in words that
/// read well after "`name` ".
pub type ShapeRule = fn(&Attributes, &[TensorType]) -> Result<TensorType, String>;

/// An op's value in double precision, independent of every kernel.
pub type Evaluate = fn(&Attributes, &[&Array], &TensorType) -> Array;

/// The gradient of an op.
#[derive(Clone, Copy)]
pub enum Vjp {
    /// Through the expansion.
    Derived,
    /// No gradient flows through it.
    Zero,
    /// From attributes, operands, result and the gradient of the result: one gradient per
    /// operand, of the operand's shape; `None` for an operand that gets none. A composite's
    /// rule, made of primitives, is used in place of what its expansion would give.
    #[allow(clippy::type_complexity)]
    Rule(for<'g> fn(&Attributes, &[Tensor<'g>], Tensor<'g>, Tensor<'g>) -> Vec<Option<Tensor<'g>>>),
}

/// How an op becomes kernels: the passes look at this, never at the op's name.
#[derive(Clone, Copy)]
pub enum Lowering {
    /// A value bound from outside: an input, a parameter, a piece of state.
    Leaf,
    /// The same number everywhere.
    Constant,
    /// Each element's index along one axis.
    Index,
    /// One scalar instruction on operands of one shape.
    Pointwise(ScalarOp),
    /// A combination of all elements along the axes, which stay with size 1.
    Reduce(Combine),
    /// The operand seen through another layout; `None` when only a copy can do it.
    View(fn(&Attributes, &Layout, &Shape) -> Option<Layout>),
    /// Batched matrix product of operands of one rank.
    Contract,
    /// The operands as pieces of the result, which [`Attributes::Assembly`] describes.
    Assemble,
    /// Rows of a table chosen by indices.
    Gather,
    /// Rows added into a table at indices.
    ScatterAdd,
    /// Attention, or a part of its gradient, without the matrix of all scores in memory.
    Attention(AttentionPart),
    /// A composition of other ops.
    Expand(for<'g> fn(&Attributes, &[Tensor<'g>]) -> Tensor<'g>),
}

/// What an elementwise op is in the algebra of sums and products, for the e-graph's normal
/// forms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algebra {
    /// Neither.
    Opaque,
    /// Σ coefficient · operand.
    Sum(&'static [f64]),
    /// Π operand^(half / 2): powers in halves, so that roots are exact.
    Product(&'static [i8]),
}

/// Where the elements of a test operand come from.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// Uniform in a range.
    Uniform(f64, f64),
    /// Small integers, so that ties happen.
    Integers(i32, i32),
    /// Indices below a bound, as `u32`.
    Indices(u32),
    /// 0 or 1, as `Bool`.
    Truth,
}

/// One set of operands the conformance suite tries an op on.
#[derive(Clone, Debug)]
pub struct Case {
    /// The op's attributes.
    pub attributes: Attributes,
    /// Shape and domain of each operand.
    pub operands: Vec<(Shape, Domain)>,
}

impl Case {
    /// A case without attributes whose operands share a domain.
    pub fn uniform(shapes: &[&[usize]], low: f64, high: f64) -> Case {
        Case::with(Attributes::None, shapes, Domain::Uniform(low, high))
    }

    /// A case with attributes whose operands share a domain.
    pub fn with(attributes: Attributes, shapes: &[&[usize]], domain: Domain) -> Case {
        let operands = shapes
            .iter()
            .map(|&dims| (Shape::from(dims), domain))
            .collect();
        Case {
            attributes,
            operands,
        }
    }
}

/// Everything there is to know about one op, in one block.
pub struct OpDef {
    /// Its name, as printed.
    pub name: &'static str,
    /// Its result type.
    pub shape: ShapeRule,
    /// Its value in double precision.
    pub evaluate: Evaluate,
    /// How it becomes kernels.
    pub lowering: Lowering,
    /// Its gradient.
    pub vjp: Vjp,
    /// Its place in the algebra of sums and products.
    pub algebra: Algebra,
    /// Where the conformance suite tries it.
    pub cases: fn() -> Vec<Case>,
}

impl fmt::Debug for OpDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An op and its attributes: what a node of a graph does.
#[derive(Clone, Debug)]
pub struct Op {
    /// Which op.
    pub def: &'static OpDef,
    /// With which attributes.
    pub attributes: Attributes,
}

impl Op {
    fn key(&self) -> (&str, &Attributes) {
        (self.def.name, &self.attributes)
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Op) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Op {}

impl PartialOrd for Op {
    fn partial_cmp(&self, other: &Op) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Op {
    fn cmp(&self, other: &Op) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for Op {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
