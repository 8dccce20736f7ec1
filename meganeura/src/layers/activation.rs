//! Activations: elementwise functions, and softmax.

use crate::ir::{DType, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Message, Shapes};

/// The rule of a function of floats that keeps the shape.
const fn of_floats(x: &Shapes) -> Shapes {
    match x.unless(DType::F32) {
        Some(wrong) => wrong,
        None => x.same(),
    }
}

/// The rule of a function along the last axis.
const fn along_last(x: &Shapes) -> Shapes {
    let x = of_floats(x);
    if let Some(0) = x.first().rank() {
        let message = Message::new("needs a last axis to work along, but is given ");
        return Shapes::fail(message.dims(&x.first()));
    }
    x
}

/// Layers without settings, each a method of [`Tensor`].
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $rule:ident, $method:ident;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq)]
            #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
            pub struct $name;

            #[layer]
            #[diagnostic::do_not_recommend]
            impl Layer for $name {
                const BASE: Self = $name;

                const fn shape(&self, x: &Shapes) -> Shapes {
                    $rule(x)
                }

                fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
                    x.$method()
                }
            }
        )+
    };
}

functions! {
    /// max(x, 0); its derivative at 0 is 0.
    Relu: of_floats, relu;
    /// x · σ(x), also called Swish.
    Silu: of_floats, silu;
    /// The hyperbolic tangent.
    Tanh: of_floats, tanh;
    /// 1/(1 + e⁻ˣ)
    Sigmoid: of_floats, sigmoid;
    /// eˣ / Σ eˣ along the last axis.
    Softmax: along_last, softmax;
    /// The logarithm of the softmax along the last axis.
    LogSoftmax: along_last, log_softmax;
}

/// The Gaussian error linear unit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Gelu {
    /// Whether it is ½x(1 + erf(x/√2)), or the form with tanh that comes close to it.
    pub exact: bool,
}

impl Gelu {
    /// ½x(1 + erf(x/√2))
    #[must_use]
    pub const fn exact() -> Gelu {
        Gelu { exact: true }
    }

    /// ½x(1 + tanh(√(2/π)(x + 0.044715x³)))
    #[must_use]
    pub const fn tanh() -> Gelu {
        Gelu { exact: false }
    }
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Gelu {
    const BASE: Self = Gelu::exact();

    const fn shape(&self, x: &Shapes) -> Shapes {
        of_floats(x)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        if self.exact { x.gelu_exact() } else { x.gelu() }
    }
}
