//! A model as the user wrote it. All tokens are the user's own, so that errors point at them.

use proc_macro2::Span;
use std::cell::Cell;
use syn::{DeriveInput, Expr, Ident, LitStr, Member, Path, Type};

/// A struct or an enum under `#[derive(Model)]`.
pub struct Model<'a> {
    pub original: &'a DeriveInput,
    pub attributes: ModelAttributes,
    pub body: Body<'a>,
}

pub enum Body<'a> {
    Struct(Vec<Field<'a>>),
    Enum(Vec<Variant<'a>>),
    /// Neither, which was reported.
    Other,
}

/// What `#[model(...)]` says.
#[derive(Default)]
pub struct ModelAttributes {
    /// `crate = path`
    pub krate: Option<Path>,
    pub config: Config,
    /// `input(...)`
    pub inputs: Vec<Input>,
    /// The word `input`, if it was there.
    pub input_word: Option<Ident>,
    pub outputs: Outputs,
}

#[derive(Default)]
pub enum Config {
    #[default]
    None,
    /// `config(name: Type = default, ...)`
    Names(Vec<ConfigName>),
    /// `config = L::Config`, with the word `config`
    Of(Ident, Box<Type>),
}

pub struct ConfigName {
    pub name: Ident,
    pub ty: Type,
    pub default: Option<Expr>,
}

/// `name: [dims] as dtype`
pub struct Input {
    pub name: Ident,
    pub spec: Spec,
}

/// What is said of one tensor.
#[derive(Default)]
pub struct Spec {
    pub dims: Option<Vec<Expr>>,
    pub dtype: Option<Ident>,
}

#[derive(Default)]
pub enum Outputs {
    /// The last field's.
    #[default]
    Implied,
    /// `output = [dims]`, with the word `output`
    Single(Ident, Spec),
    /// `output(name = source: [dims], ...)`, with the word `output`
    Named(Ident, Vec<NamedOutput>),
}

pub struct NamedOutput {
    pub name: Ident,
    pub source: Source,
    pub spec: Spec,
}

/// A value that a field takes: `x`, `translate.memory`, `halves.1`.
#[derive(Clone)]
pub struct Source {
    pub name: Ident,
    pub pick: Option<Pick>,
}

#[derive(Clone)]
pub enum Pick {
    At(usize),
    Named(Ident),
}

/// A field that holds a layer, or is skipped.
pub struct Field<'a> {
    pub ty: &'a Type,
    pub member: Member,
    /// Its name in messages and paths.
    pub name: String,
    /// Where to report what is wrong with the field: its name, or the type where it has none.
    pub place: Span,
    pub attributes: LayerAttributes,
}

/// What `#[layer(...)]` says.
#[derive(Default)]
pub struct LayerAttributes {
    /// `name = value`
    pub settings: Vec<Setting>,
    /// `..base`
    pub base: Option<Expr>,
    /// `from(...)`
    pub from: Option<(Ident, Vec<Source>)>,
    /// `residual`
    pub residual: Option<Ident>,
    /// `add(...)`
    pub add: Option<(Ident, Vec<Source>)>,
    /// `repeat(count)`
    pub repeat: Option<(Ident, Expr)>,
    /// `tie(field)`
    pub tie: Option<(Ident, Ident)>,
    /// `when(condition)`
    pub when: Option<(Ident, Expr)>,
    /// `rename("...")`
    pub rename: Option<(Ident, LitStr)>,
    /// `init(...)`
    pub init: Option<(Ident, Expr)>,
    /// `freeze`
    pub freeze: Option<Ident>,
    /// `recompute`
    pub recompute: Option<Ident>,
    /// `skip`
    pub skip: Option<Ident>,
    /// Something was wrong with the field and was reported: what else there is to say of it may only
    /// follow from that.
    pub broken: Cell<bool>,
}

pub struct Setting {
    pub name: Ident,
    pub value: Expr,
}

/// A variant of an enum: one layer to choose.
pub struct Variant<'a> {
    pub name: &'a Ident,
    pub ty: &'a Type,
}

impl Model<'_> {
    /// The fields that hold layers, in order.
    pub fn layers(&self) -> impl Iterator<Item = &Field<'_>> {
        let fields: &[Field<'_>] = match &self.body {
            Body::Struct(fields) => fields,
            Body::Enum(_) | Body::Other => &[],
        };
        fields
            .iter()
            .filter(|field| field.attributes.skip.is_none())
    }

    /// The names in `config(...)`.
    pub fn config_names(&self) -> &[ConfigName] {
        match &self.attributes.config {
            Config::Names(names) => names,
            Config::None | Config::Of(..) => &[],
        }
    }
}
