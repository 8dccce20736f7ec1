//! The walk as a function on types.
//!
//! Trait functions cannot be called at compile time, associated consts of traits can be read. So a
//! rule is not called with a configuration and with shapes, it is *named* with a type that carries
//! the one ([`Value`]) and a type that carries the other ([`Carry`]), and its result is again a type
//! that carries shapes. This works for generic and for foreign layers alike.
//!
//! What is carried is a reference, and what many consts have in common stands in a `const fn` that
//! is generic over carriers: the compiler spends its time on the number of consts and of their bodies.

use super::{Entry, Shapes};
use crate::model::{Layer, Part, Repetition, Settings};
use core::marker::PhantomData;

/// A configuration, carried by a type.
pub trait Value {
    /// What it is a value of.
    type Of;
    /// The configuration.
    const VALUE: Self::Of;
    /// The first required setting that nobody set; empty when all are.
    const MISSING: &'static str = "";
}

/// Shapes, carried by a type.
pub trait Carry {
    /// The shapes.
    const SHAPES: &'static Shapes;
    /// Whether a model that takes this in is looked at on its own.
    const STANDALONE: bool = false;
}

/// The shape rule of one layer for the configuration `C` and the inputs `I`.
pub trait Walk<C, I> {
    /// What is put out.
    const OUT: &'static Shapes;
}

/// The field `N` of a model with the configuration `C` on the inputs `I`.
pub trait At<const N: usize, C, I> {
    /// What the field puts out.
    const OUT: &'static Shapes;
}

/// The configuration of a field, and what it leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Setting<T> {
    /// The configuration.
    pub value: T,
    /// The first required setting that nobody set.
    pub missing: &'static str,
}

impl<T: Settings + Copy> Setting<T> {
    /// A configuration in which `set` were set.
    #[must_use]
    pub const fn of(value: T, set: &[&str]) -> Setting<T> {
        Setting {
            value,
            missing: first_missing(T::REQUIRED, set),
        }
    }
}

/// The configuration of field `N` of a model with the configuration `C`.
pub trait Set<const N: usize, C> {
    /// The type of the field's configuration.
    type Of;
    /// The field's configuration.
    const SET: Setting<Self::Of>;
}

/// A model with the configuration `C` on the inputs `I`.
pub trait Pieces<C, I> {
    /// Its inputs, bound.
    const ENTRY: &'static Entry;
    /// What it puts out, without the problems of its fields.
    const OWN: &'static Shapes;
    /// The names by which its fields take outputs of other fields.
    const NAMES: &'static [&'static str];
}

/// Nothing is known.
pub struct Unknown;

impl Carry for Unknown {
    const SHAPES: &'static Shapes = &Shapes::UNKNOWN;
}

/// The input of a model that is looked at on its own.
pub struct Standalone;

impl Carry for Standalone {
    const SHAPES: &'static Shapes = &Shapes::UNKNOWN;
    const STANDALONE: bool = true;
}

/// The default configuration of `L`.
pub struct Base<L>(PhantomData<L>);

impl<L: Part> Value for Base<L> {
    type Of = L::Config;
    const VALUE: L::Config = L::Config::BASE;
    const MISSING: &'static str = first_missing(L::Config::REQUIRED, &[]);
}

/// The configuration of field `N` of the model `M`.
pub struct Field<M, const N: usize, C>(PhantomData<(M, C)>);

impl<M: Set<N, C, Of: Copy>, const N: usize, C> Value for Field<M, N, C> {
    type Of = M::Of;
    const VALUE: M::Of = M::SET.value;
    const MISSING: &'static str = M::SET.missing;
}

/// What is put out by a layer that has a [`Walk`].
pub struct Rule<L, C, I>(PhantomData<(L, C, I)>);

impl<L: Walk<C, I>, C, I> Carry for Rule<L, C, I> {
    const SHAPES: &'static Shapes = L::OUT;
}

/// What field `N` of the model `M` puts out, for those who take it in: nothing is known of it when
/// the field failed.
pub struct Output<M, const N: usize, C, I>(PhantomData<(M, C, I)>);

impl<M: At<N, C, I>, const N: usize, C, I> Carry for Output<M, N, C, I> {
    const SHAPES: &'static Shapes = M::OUT.forgiven();
}

/// The input `N` of the model `M`, as its fields see it.
pub struct Input<M, const N: usize, C, I>(PhantomData<(M, C, I)>);

impl<M: Pieces<C, I>, const N: usize, C, I> Carry for Input<M, N, C, I> {
    const SHAPES: &'static Shapes = &M::ENTRY.inputs.output_at(N);
}

/// The values of `A` and then those of `B`.
pub struct Joined<A, B>(PhantomData<(A, B)>);

impl<A: Carry, B: Carry> Carry for Joined<A, B> {
    const SHAPES: &'static Shapes = &Shapes::gather(&[A::SHAPES, B::SHAPES]);
}

/// The value `N` among those of `A`.
pub struct Pick<A, const N: usize>(PhantomData<A>);

impl<A: Carry, const N: usize> Carry for Pick<A, N> {
    const SHAPES: &'static Shapes = &A::SHAPES.output_at(N);
}

/// The value of `A` with the name that is number `N` in the model `M`.
pub struct Named<A, M, const N: usize, C, I>(PhantomData<(A, M, C, I)>);

impl<A: Carry, M: Pieces<C, I>, const N: usize, C, I> Carry for Named<A, M, N, C, I> {
    const SHAPES: &'static Shapes = &A::SHAPES.output(M::NAMES[N]);
}

/// The layer `L` after something else; `N` is its place in the sequence.
pub struct Then<L, const N: usize, C, I>(PhantomData<(L, C, I)>);

impl<L: Layer, const N: usize, C: Value<Of = L::Config>, I: Carry> Carry for Then<L, N, C, I> {
    const SHAPES: &'static Shapes = match I::SHAPES.failed() {
        true => I::SHAPES,
        false => &in_sequence(N, <L::Rule<C, I> as Carry>::SHAPES),
    };
}

/// The configuration of each of several layers.
pub struct Each<C>(PhantomData<C>);

impl<T: Copy, C: Value<Of = Repetition<T>>> Value for Each<C> {
    type Of = T;
    const VALUE: T = C::VALUE.each;
    const MISSING: &'static str = C::MISSING;
}

/// Several layers `L` after each other.
pub struct Repeated<L, C, I>(PhantomData<(L, C, I)>);

impl<L: Layer, C: Value<Of = Repetition<L::Config>>, I: Carry> Carry for Repeated<L, C, I> {
    const SHAPES: &'static Shapes = &repeated(
        C::VALUE.count,
        I::SHAPES,
        <L::Rule<Each<C>, I> as Carry>::SHAPES,
        <L::Rule<Each<C>, L::Rule<Each<C>, I>> as Carry>::SHAPES,
    );
}

/// What `count` layers put out, given what the first and the second of them do: from then on either
/// nothing changes, or nothing is known.
pub(crate) const fn repeated(
    count: usize,
    input: &Shapes,
    once: &Shapes,
    twice: &Shapes,
) -> Shapes {
    if input.failed() || count == 0 {
        return *input;
    }
    if once.failed() || count == 1 {
        return once.inside("0");
    }
    if twice.failed() || count == 2 || once.first().equals(&twice.first()) {
        return twice.inside("1");
    }
    Shapes::UNKNOWN
}

const fn in_sequence(place: usize, rule: &Shapes) -> Shapes {
    const PLACES: [&str; 12] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"];
    rule.inside(PLACES[place])
}

/// The first of `required` that is not in `set`.
#[must_use]
pub const fn first_missing(required: &[&'static str], set: &[&str]) -> &'static str {
    let mut index = 0;
    while index < required.len() {
        let mut found = false;
        let mut other = 0;
        while other < set.len() {
            found |= super::same_text(required[index], set[other]);
            other += 1;
        }
        if !found {
            return required[index];
        }
        index += 1;
    }
    ""
}

/// What is added to what a layer puts out.
#[derive(Clone, Copy, Debug)]
pub enum Sum {
    /// `residual`: what flows into it.
    Residual,
    /// `add(...)`: another value.
    Added,
}

/// What the field `name` puts out: what the rule of its layer `L` says, unless its input already went
/// wrong.
#[must_use]
pub const fn after<L: Part, C: Value<Of = L::Config>, I: Carry>(name: &'static str) -> Shapes {
    before::<L, C, I>().leaving(name)
}

/// The same before anything is added to it.
#[must_use]
pub const fn before<L: Part, C: Value<Of = L::Config>, I: Carry>() -> Shapes {
    match I::SHAPES.failed() {
        true => *I::SHAPES,
        false => *<L::Rule<C, I> as Carry>::SHAPES,
    }
}

/// The sum with another value.
#[must_use]
pub const fn plus<A: Carry>(shapes: Shapes, sum: Sum) -> Shapes {
    shapes.plus(A::SHAPES, sum)
}

/// What is put out by the field `name`, under its name.
#[must_use]
pub const fn leaving(shapes: Shapes, name: &'static str) -> Shapes {
    shapes.leaving(name)
}

/// What is put out by a leaf layer that takes `count` values and has no rule.
#[must_use]
pub const fn opaque<C: Value, I: Carry>(count: usize) -> Shapes {
    match stopped(C::MISSING, count, I::SHAPES) {
        Some(stopped) => stopped,
        None => Shapes::UNKNOWN,
    }
}

/// What a model puts out, with the first of the problems in it.
#[must_use]
pub const fn whole(entry: &Entry, fields: &[&Shapes], own: &Shapes) -> Shapes {
    let mut out = *own;
    let mut index = fields.len();
    while index > 0 {
        index -= 1;
        if fields[index].failed() {
            out = *fields[index];
        }
    }
    if entry.inputs.failed() {
        out = entry.inputs;
    }
    out
}

/// What stops a layer before its rule is asked: a missing setting, a failed input, or a wrong number
/// of values (`count` is `usize::MAX` for a layer that takes any).
#[must_use]
pub const fn stopped(missing: &'static str, count: usize, input: &Shapes) -> Option<Shapes> {
    if !missing.is_empty() {
        return Some(Shapes::missing(missing));
    }
    if input.failed() {
        return Some(*input);
    }
    if count == usize::MAX {
        return None;
    }
    input.unless_count(count)
}

/// Reports a problem of the field `N` of a model that is looked at on its own as an error at the place
/// of the call.
///
/// # Panics
/// If there is a problem: that is how a constant reports.
#[track_caller]
pub const fn report<M: Part + At<N, Base<M>, Standalone>, const N: usize>() {
    report_shapes(M::OUT);
}

#[track_caller]
const fn report_shapes(shapes: &Shapes) {
    if shapes.failed() {
        panic!("{}", shapes.sentence().as_str());
    }
}

/// Reports that a model's outputs are not as declared.
///
/// # Panics
/// If there is a problem: that is how a constant reports.
#[track_caller]
pub const fn report_output<M: Part + Pieces<Base<M>, Standalone>>(model: &str) {
    let shapes = M::OWN;
    if shapes.failed() {
        let message = super::Message::new("model ").code(model).text(" ");
        panic!("{}", message.message(shapes.problem()).as_str());
    }
}

/// Reports what [`crate::check!`] finds.
///
/// # Panics
/// If there is a problem: that is how a constant reports.
#[track_caller]
pub const fn report_model(model: &str, missing: &str, shapes: &Shapes) {
    let message = super::Message::EMPTY.code(model);
    if !missing.is_empty() {
        let message = message.text(" needs ").code(missing).text(": write `");
        panic!("{}", message.text(missing).text(": ...`").as_str());
    }
    if shapes.failed() && shapes.is_at_top() {
        panic!("{}", message.text(" ").message(shapes.problem()).as_str());
    }
    report_shapes(shapes);
}
