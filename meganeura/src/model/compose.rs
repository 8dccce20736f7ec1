//! Layers made of layers: sequences, repetitions, choices of presence.

use super::{Layer, Repetition, Run, Settings};
use crate::ir::{Graph, Tensor};
use crate::walk::carry::{Base, Repeated, Rule, Then, Walk};
use crate::walk::{Carry, Shapes, Value};
use core::marker::PhantomData;

/// Runs layers after each other, each in the scope of its number.
fn in_sequence<'g, 'l>(
    graph: &'g Graph,
    inputs: &[Tensor<'g>],
    layers: impl Iterator<Item = &'l dyn Layer>,
) -> Vec<Tensor<'g>> {
    let run = Run::anonymous(graph, inputs);
    let mut flow = run.all();
    for (index, layer) in layers.enumerate() {
        flow = run.numbered(index, layer, &flow);
    }
    flow.into_tensors()
}

/// Runs equal layers after each other, each in the scope of its number.
fn in_a_row<'g, L: Layer>(
    graph: &'g Graph,
    inputs: &[Tensor<'g>],
    layers: &[L],
) -> Vec<Tensor<'g>> {
    let run = Run::anonymous(graph, inputs);
    let mut flow = run.all();
    for (index, layer) in layers.iter().enumerate() {
        flow = run.repeated(index, layer, &flow);
    }
    flow.into_tensors()
}

/// Implements [`Layer`] for tuples: a sequence, whose settings go to its first layer while the
/// others keep their defaults.
macro_rules! sequence {
    ($first:ident $($layer:ident $index:tt)+ => $rule:ty) => {
        #[diagnostic::do_not_recommend]
        impl<$first: Layer, $($layer: Layer),+> Layer for ($first, $($layer),+) {
            type Config = $first::Config;
            type Rule<Cfg: Value<Of = $first::Config>, In: Carry> = $rule;

            fn from_config(config: $first::Config) -> Self {
                (
                    $first::from_config(config),
                    $($layer::from_config(<$layer::Config as Settings>::BASE)),+
                )
            }

            fn config(&self) -> Option<$first::Config> {
                self.0.config()
            }

            fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
                let layers: &[&dyn Layer] = &[&self.0, $(&self.$index),+];
                in_sequence(graph, inputs, layers.iter().copied())
            }
        }
    };
}

type Next<L, const N: usize, I> = Then<L, N, Base<L>, I>;

sequence!(A B 1 => Next<B, 1, Then<A, 0, Cfg, In>>);
sequence!(A B 1 C 2 => Next<C, 2, Next<B, 1, Then<A, 0, Cfg, In>>>);
sequence!(A B 1 C 2 D 3 => Next<D, 3, Next<C, 2, Next<B, 1, Then<A, 0, Cfg, In>>>>);
sequence!(A B 1 C 2 D 3 E 4 =>
    Next<E, 4, Next<D, 3, Next<C, 2, Next<B, 1, Then<A, 0, Cfg, In>>>>>);
sequence!(A B 1 C 2 D 3 E 4 F 5 =>
    Next<F, 5, Next<E, 4, Next<D, 3, Next<C, 2, Next<B, 1, Then<A, 0, Cfg, In>>>>>>);
sequence!(A B 1 C 2 D 3 E 4 F 5 G 6 =>
    Next<G, 6, Next<F, 5, Next<E, 4, Next<D, 3, Next<C, 2, Next<B, 1, Then<A, 0, Cfg, In>>>>>>>);
sequence!(A B 1 C 2 D 3 E 4 F 5 G 6 H 7 =>
    Next<H, 7, Next<G, 6, Next<F, 5, Next<E, 4, Next<D, 3, Next<C, 2, Next<B, 1,
    Then<A, 0, Cfg, In>>>>>>>>);

/// A sequence of one layer.
#[diagnostic::do_not_recommend]
impl<A: Layer> Layer for (A,) {
    type Config = A::Config;
    type Rule<C: Value<Of = A::Config>, I: Carry> = Then<A, 0, C, I>;

    fn from_config(config: A::Config) -> Self {
        (A::from_config(config),)
    }

    fn config(&self) -> Option<A::Config> {
        self.0.config()
    }

    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        in_sequence(graph, inputs, std::iter::once(&self.0 as &dyn Layer))
    }
}

/// A number of equal layers in a row, as `repeat(n)` makes them.
#[diagnostic::do_not_recommend]
impl<L: Layer> Layer for Vec<L> {
    type Config = Repetition<L::Config>;
    type Rule<C: Value<Of = Self::Config>, I: Carry> = Repeated<L, C, I>;

    fn from_config(config: Self::Config) -> Self {
        let layer = |_| L::from_config(config.each);
        (0..config.count).map(layer).collect()
    }

    fn config(&self) -> Option<Self::Config> {
        let each = self.first()?.config()?;
        Some(Repetition {
            count: self.len(),
            each,
        })
    }

    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        in_a_row(graph, inputs, self)
    }
}

/// The configuration of each of `N` layers as that of a repetition.
pub struct Times<C, const N: usize>(PhantomData<C>);

impl<T: Settings + Copy, C: Value<Of = T>, const N: usize> Value for Times<C, N> {
    type Of = Repetition<T>;
    const VALUE: Repetition<T> = Repetition {
        count: N,
        each: C::VALUE,
    };
    const MISSING: &'static str = C::MISSING;
}

/// A fixed number of equal layers in a row.
#[diagnostic::do_not_recommend]
impl<L: Layer, const N: usize> Layer for [L; N] {
    type Config = L::Config;
    type Rule<C: Value<Of = L::Config>, I: Carry> = Repeated<L, Times<C, N>, I>;

    fn from_config(config: L::Config) -> Self {
        std::array::from_fn(|_| L::from_config(config))
    }

    fn config(&self) -> Option<L::Config> {
        self.first()?.config()
    }

    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        in_a_row(graph, inputs, self)
    }
}

/// The configuration of a layer that may be absent, for when it is there.
pub struct Present<C>(PhantomData<C>);

impl<T: Settings + Copy, C: Value<Of = Option<T>>> Value for Present<C> {
    type Of = T;
    const VALUE: T = match C::VALUE {
        Some(config) => config,
        None => T::BASE,
    };
    const MISSING: &'static str = match C::VALUE {
        Some(_) => C::MISSING,
        // A layer that is not there needs no settings.
        None => "",
    };
}

impl<L: Layer, C: Value<Of = Option<L::Config>>, I: Carry> Walk<C, I> for Option<L> {
    const OUT: &'static Shapes = match C::VALUE {
        Some(_) => <L::Rule<Present<C>, I> as Carry>::SHAPES,
        None => I::SHAPES,
    };
}

/// A layer or nothing, as `when(condition)` makes it. Where there is none, the input goes through.
#[diagnostic::do_not_recommend]
impl<L: Layer> Layer for Option<L> {
    type Config = Option<L::Config>;
    type Rule<C: Value<Of = Self::Config>, I: Carry> = Rule<Self, C, I>;

    fn from_config(config: Self::Config) -> Self {
        config.map(L::from_config)
    }

    fn config(&self) -> Option<Self::Config> {
        match self {
            Some(layer) => layer.config().map(Some),
            None => Some(None),
        }
    }

    fn shape(&self, inputs: &Shapes) -> Shapes {
        match self {
            Some(layer) => layer.shape(inputs),
            None => *inputs,
        }
    }

    fn output_names(&self) -> &'static [&'static str] {
        self.as_ref().map_or(&[], Layer::output_names)
    }

    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        match self {
            Some(layer) => layer.forward(graph, inputs),
            None => inputs.to_vec(),
        }
    }
}
