//! Scalar instructions as WGSL expressions, on one lane or on vectors of four.

use crate::ir::{Combine, ScalarOp};
use meganeura_shaders::{FUNCTIONS, Function};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The functions that a shader turned out to need.
#[derive(Debug, Default)]
pub(super) struct Functions {
    used: RefCell<BTreeSet<(usize, usize)>>,
}

impl Functions {
    /// A call of a function of the shader library.
    pub fn call(&self, name: &str, lanes: usize, arguments: &[&str]) -> String {
        self.require(name, lanes);
        format!("{name}{lanes}({})", arguments.join(", "))
    }

    fn require(&self, name: &str, lanes: usize) {
        let function =
            Function::find(name).unwrap_or_else(|| panic!("no function is called {name}"));
        for called in function.calls {
            self.require(called, lanes);
        }
        let position = FUNCTIONS.iter().position(|known| known.name == name);
        self.used
            .borrow_mut()
            .extend(position.map(|position| (position, lanes)));
    }

    /// The text of all that were called, in an order in which they can be compiled.
    pub fn text(&self) -> String {
        let used = self.used.borrow();
        used.iter()
            .map(|&(position, lanes)| FUNCTIONS[position].instantiate(lanes))
            .collect()
    }
}

/// The type of a float with this many lanes.
pub(super) fn real(lanes: usize) -> &'static str {
    if lanes == 4 { "vec4<f32>" } else { "f32" }
}

/// A number as a literal.
pub(super) fn literal(value: f32, lanes: usize) -> String {
    // WGSL has no literals for these, and compilers refuse expressions that produce them.
    let one = match value.is_finite() {
        true => format!("{value:?}f"),
        false => format!("bitcast<f32>({:#x}u)", value.to_bits()),
    };
    match lanes {
        4 => format!("vec4<f32>({one})"),
        _ => one,
    }
}

/// An operand of a scalar instruction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Argument {
    /// Its text.
    pub text: String,
    /// Its value, where that is known.
    pub constant: Option<f32>,
}

/// A scalar instruction as an expression. Operands have as many lanes as the result.
pub(super) fn expression(
    op: ScalarOp,
    arguments: &[Argument],
    lanes: usize,
    functions: &Functions,
) -> String {
    let text = |index: usize| arguments[index].text.as_str();
    let call = |name: &str, arguments: &[&str]| functions.call(name, lanes, arguments);
    let truth = |condition: String| {
        format!(
            "select({}, {}, {condition})",
            literal(0.0, lanes),
            literal(1.0, lanes)
        )
    };
    if let Some(folded) = unfoldable(op, arguments, lanes, functions) {
        return folded;
    }
    match op {
        ScalarOp::Identity => text(0).to_owned(),
        ScalarOp::Negate => format!("-{}", text(0)),
        ScalarOp::Absolute => format!("abs({})", text(0)),
        ScalarOp::Exp => format!("exp({})", text(0)),
        ScalarOp::Log => format!("log({})", text(0)),
        ScalarOp::Sqrt => format!("sqrt({})", text(0)),
        ScalarOp::ReciprocalSqrt => format!("inverseSqrt({})", text(0)),
        ScalarOp::Reciprocal => format!("1.0 / {}", text(0)),
        ScalarOp::Tanh => call("tanh", &[text(0)]),
        ScalarOp::Sigmoid => call("sigmoid", &[text(0)]),
        ScalarOp::Erf => call("erf", &[text(0)]),
        ScalarOp::Sin => call("sin", &[text(0)]),
        ScalarOp::Cos => call("cos", &[text(0)]),
        ScalarOp::Add => format!("{} + {}", text(0), text(1)),
        ScalarOp::Subtract => format!("{} - {}", text(0), text(1)),
        ScalarOp::Multiply => format!("{} * {}", text(0), text(1)),
        ScalarOp::Divide => format!("{} / {}", text(0), text(1)),
        ScalarOp::Maximum => extreme("max", arguments, lanes, functions),
        ScalarOp::Minimum => extreme("min", arguments, lanes, functions),
        ScalarOp::Less => truth(format!("{} < {}", text(0), text(1))),
        ScalarOp::LessEqual => truth(format!("{} <= {}", text(0), text(1))),
        ScalarOp::Equal => truth(format!("{} == {}", text(0), text(1))),
        ScalarOp::Select => {
            let condition = format!("{} != {}", text(0), literal(0.0, lanes));
            format!("select({}, {}, {condition})", text(2), text(1))
        }
        ScalarOp::First => text(0).to_owned(),
        ScalarOp::Random => call("random", &[text(0), text(1)]),
    }
}

/// Expressions that compilers fold to a number though a NaN or infinity in them must not
/// disappear.
fn unfoldable(
    op: ScalarOp,
    arguments: &[Argument],
    lanes: usize,
    functions: &Functions,
) -> Option<String> {
    let text = |index: usize| arguments[index].text.as_str();
    let same = arguments.len() == 2 && arguments[0].text == arguments[1].text;
    let zero = literal(0.0, lanes);
    let one = literal(1.0, lanes);
    let finite_or_nan =
        |tested: &str, value: &str| functions.call("finite_or_nan", lanes, &[tested, value]);
    match op {
        ScalarOp::Subtract if same => Some(finite_or_nan(text(0), &zero)),
        ScalarOp::Divide if same => {
            let nonzero = finite_or_nan(&format!("1.0 / {}", text(0)), &one);
            Some(finite_or_nan(text(0), &nonzero))
        }
        ScalarOp::Equal | ScalarOp::LessEqual if same => {
            let is_nan = functions.call("is_nan", lanes, &[text(0)]);
            Some(format!("select({one}, {zero}, {is_nan})"))
        }
        ScalarOp::Multiply if arguments[0].constant == Some(0.0) => {
            Some(finite_or_nan(text(1), &zero))
        }
        ScalarOp::Multiply if arguments[1].constant == Some(0.0) => {
            Some(finite_or_nan(text(0), &zero))
        }
        _ => None,
    }
}

/// The larger or smaller of two; NaN if either is. A constant need not be tested.
fn extreme(builtin: &str, arguments: &[Argument], lanes: usize, functions: &Functions) -> String {
    let [a, b] = arguments else {
        panic!("an extreme of {} operands", arguments.len());
    };
    let number = |argument: &Argument| argument.constant.is_some_and(|value| !value.is_nan());
    let tested = match (number(a), number(b)) {
        (_, true) => a,
        (true, false) => b,
        (false, false) => {
            let name = if builtin == "max" {
                "maximum"
            } else {
                "minimum"
            };
            return functions.call(name, lanes, &[&a.text, &b.text]);
        }
    };
    let is_nan = functions.call("is_nan", lanes, &[&tested.text]);
    format!(
        "select({builtin}({}, {}), {}, {is_nan})",
        a.text, b.text, tested.text
    )
}

/// Two partial results of a reduction in one.
pub(super) fn combine(
    combine: Combine,
    a: &str,
    b: &str,
    lanes: usize,
    functions: &Functions,
) -> String {
    match combine {
        Combine::Sum => format!("{a} + {b}"),
        Combine::Maximum => functions.call("maximum", lanes, &[a, b]),
    }
}

/// The lanes of a partial result in one.
pub(super) fn combine_lanes(
    how: Combine,
    vector: &str,
    lanes: usize,
    functions: &Functions,
) -> String {
    if lanes == 1 {
        return vector.to_owned();
    }
    let [x, y, z, w] = ["x", "y", "z", "w"].map(|lane| format!("{vector}.{lane}"));
    let pair = |a: &str, b: &str| {
        let both = combine(how, a, b, 1, functions);
        if how == Combine::Sum {
            format!("({both})")
        } else {
            both
        }
    };
    combine(how, &pair(&x, &y), &pair(&z, &w), 1, functions)
}
