//! What all parts of the generated code refer to.

use super::dims::dim;
use crate::ast::{Body, Config, Field, Model, Outputs, Pick, Source, Spec};
use crate::dims::Scope;
use crate::tokens::{self, private};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Generics, parse_quote};

/// A model and the names in its code.
pub struct Names<'a> {
    pub model: &'a Model<'a>,
    pub fields: Vec<&'a Field<'a>>,
    /// `::meganeura::__private`
    pub private: TokenStream,
    /// The model's configuration type.
    pub config: TokenStream,
    /// The name of that type, if it is one that is made for the model.
    pub config_name: Ident,
    /// The model's generics, and `__C` and `__I` for what carries the configuration and the inputs.
    pub walk_generics: Generics,
    /// The generics and `__C` alone.
    pub set_generics: Generics,
    /// The names in `config(...)`.
    pub config_names: HashSet<String>,
    /// Names of outputs that fields pick: `memory` of `translate.memory`.
    pub picks: Vec<String>,
}

impl<'a> Names<'a> {
    pub fn new(model: &'a Model<'a>) -> Names<'a> {
        let private = private(model.attributes.krate.as_ref(), Span::call_site());
        let place = model.original.ident.span();
        let config_name = format_ident!("{}Config", model.original.ident.unraw(), span = place);
        let config = match (&model.attributes.config, &model.body) {
            (Config::Of(_, ty), _) => ty.to_token_stream(),
            (_, Body::Enum(_)) => {
                let (_, generics, _) = model.original.generics.split_for_impl();
                quote!(#config_name #generics)
            }
            _ => config_name.to_token_stream(),
        };
        let mut set_generics = model.original.generics.clone();
        let value: syn::GenericParam = parse_quote!(__C: #private::Value<Of = #config>);
        set_generics.params.push(value);
        let mut walk_generics = set_generics.clone();
        walk_generics
            .params
            .push(parse_quote!(__I: #private::Carry));
        let config_names = model.config_names().iter();
        let mut config_names: HashSet<String> =
            config_names.map(|config| config.name.to_string()).collect();
        if let Config::Of(..) = model.attributes.config {
            config_names.insert("config".to_owned());
        }
        let mut names = Names {
            fields: model.layers().collect(),
            model,
            private,
            config,
            config_name,
            walk_generics,
            set_generics,
            config_names,
            picks: Vec::new(),
        };
        names.picks = names.all_picks();
        names
    }

    /// `::meganeura::__private`, standing at a place of the user's code.
    pub fn private_at(&self, place: Span) -> TokenStream {
        private(self.model.attributes.krate.as_ref(), place)
    }

    /// `Name<Generics>`
    pub fn this(&self) -> TokenStream {
        let name = &self.model.original.ident;
        let (_, generics, _) = self.model.original.generics.split_for_impl();
        quote!(#name #generics)
    }

    pub fn is_generic(&self) -> bool {
        !self.model.original.generics.params.is_empty()
    }

    /// Brings the names of `config` into scope, out of `from`.
    pub fn unpack(&self, from: &TokenStream) -> TokenStream {
        match &self.model.attributes.config {
            Config::None => TokenStream::new(),
            Config::Of(word, _) => {
                let config = Ident::new("config", word.span());
                quote!(let #config = #from;)
            }
            Config::Names(names) => {
                let config = &self.config;
                let names = names.iter().map(|config| &config.name);
                quote!(let #config { #(#names),* } = #from;)
            }
        }
    }

    /// Whether tokens read a name of `config`.
    pub fn reads_config(&self, tokens: &TokenStream) -> bool {
        tokens::mentions(tokens, &self.config_names)
    }

    /// The type that carries the configuration of field `index`.
    pub fn value(&self, index: usize) -> TokenStream {
        let field = self.fields[index];
        let place = field.ty.span();
        let private = self.private_at(place);
        let ty = field.ty;
        if has_settings(field) {
            quote_spanned!(place=> #private::Field<Self, #index, __C>)
        } else {
            quote_spanned!(place=> #private::Base<#ty>)
        }
    }

    /// The type that carries what flows into field `index`.
    pub fn carrier_into(&self, index: usize) -> TokenStream {
        let place = self.fields[index].ty.span();
        match &self.fields[index].attributes.from {
            Some((_, sources)) => self.joined(
                sources.iter().map(|source| self.carrier(source, place)),
                place,
            ),
            None if index > 0 => self.carrier_of_field(index - 1, place),
            None => {
                let inputs = 0..self.model.attributes.inputs.len();
                self.joined(
                    inputs.map(|input| self.carrier_of_input(input, place)),
                    place,
                )
            }
        }
    }

    /// The type that carries the values of all `parts`.
    pub fn joined(
        &self,
        parts: impl DoubleEndedIterator<Item = TokenStream>,
        place: Span,
    ) -> TokenStream {
        let private = self.private_at(place);
        let join = |rest: TokenStream, part| quote_spanned!(place=> #private::Joined<#part, #rest>);
        let mut parts = parts.rev();
        let last = parts
            .next()
            .unwrap_or_else(|| quote_spanned!(place=> #private::Unknown));
        parts.fold(last, join)
    }

    /// The type that carries a named value.
    pub fn carrier(&self, source: &Source, place: Span) -> TokenStream {
        let private = self.private_at(place);
        let Some(field) = self.field_of(source) else {
            let input = self.input_of(source).unwrap_or(0);
            return self.carrier_of_input(input, place);
        };
        let whole = self.carrier_of_field(field, place);
        match &source.pick {
            None => whole,
            Some(Pick::At(index)) => quote_spanned!(place=> #private::Pick<#whole, #index>),
            Some(Pick::Named(name)) => {
                let name = name.unraw().to_string();
                let index = self
                    .picks
                    .iter()
                    .position(|pick| *pick == name)
                    .unwrap_or(0);
                quote_spanned!(place=> #private::Named<#whole, Self, #index, __C, __I>)
            }
        }
    }

    fn carrier_of_field(&self, index: usize, place: Span) -> TokenStream {
        let private = self.private_at(place);
        quote_spanned!(place=> #private::Output<Self, #index, __C, __I>)
    }

    fn carrier_of_input(&self, index: usize, place: Span) -> TokenStream {
        let private = self.private_at(place);
        quote_spanned!(place=> #private::Input<Self, #index, __C, __I>)
    }

    pub fn field_of(&self, source: &Source) -> Option<usize> {
        let name = source.name.unraw().to_string();
        self.fields.iter().position(|field| field.name == name)
    }

    pub fn input_of(&self, source: &Source) -> Option<usize> {
        let name = source.name.unraw();
        let inputs = &self.model.attributes.inputs;
        inputs.iter().position(|input| input.name.unraw() == name)
    }

    /// What the model puts out: names and sources.
    pub fn outputs(&self) -> Vec<(String, Option<Source>)> {
        match &self.model.attributes.outputs {
            Outputs::Named(_, outputs) => outputs
                .iter()
                .map(|output| (output.name.unraw().to_string(), Some(output.source.clone())))
                .collect(),
            Outputs::Implied | Outputs::Single(..) => vec![(String::new(), None)],
        }
    }

    /// The list of `TensorSpec`s of the inputs.
    pub fn input_specs(&self, scope: &Scope) -> TokenStream {
        let specs = self.model.attributes.inputs.iter();
        let specs =
            specs.map(|input| self.spec(&input.name.unraw().to_string(), &input.spec, scope));
        quote!(&[#(#specs),*])
    }

    /// The list of `TensorSpec`s of the outputs, empty when nothing is declared.
    pub fn output_specs(&self, scope: &Scope) -> TokenStream {
        let specs: Vec<TokenStream> = match &self.model.attributes.outputs {
            Outputs::Implied => Vec::new(),
            Outputs::Single(_, spec) => vec![self.spec("", spec, scope)],
            Outputs::Named(_, outputs) => outputs
                .iter()
                .map(|output| self.spec(&output.name.unraw().to_string(), &output.spec, scope))
                .collect(),
        };
        quote!(&[#(#specs),*])
    }

    fn spec(&self, name: &str, spec: &Spec, scope: &Scope) -> TokenStream {
        let private = &self.private;
        let dims = match &spec.dims {
            Some(dims) => {
                let dims = dims
                    .iter()
                    .map(|dim| self::dim(&self.private_at(dim.span()), scope, dim));
                quote!(#private::Dims::of(&[#(#dims),*]))
            }
            None => quote!(#private::Dims::UNKNOWN),
        };
        let dtype = match (&spec.dtype, &spec.dims) {
            (Some(dtype), _) => match dtype.to_string().as_str() {
                "u32" => quote!(.with_dtype(#private::DType::U32)),
                "bool" => quote!(.with_dtype(#private::DType::Bool)),
                _ => quote!(.with_dtype(#private::DType::F32)),
            },
            // A declared shape is one of floats unless it says otherwise.
            (None, Some(_)) => quote!(.with_dtype(#private::DType::F32)),
            (None, None) => TokenStream::new(),
        };
        quote!(#private::TensorSpec { name: #name, dims: #dims #dtype })
    }

    /// Whether the dims of inputs or outputs read names of `config`.
    pub fn specs_read_config(&self) -> bool {
        self.spec_dims()
            .any(|dim| self.reads_config(&dim.to_token_stream()))
    }

    /// All dims of inputs and outputs.
    fn spec_dims(&self) -> impl Iterator<Item = &Expr> {
        let attributes = &self.model.attributes;
        let inputs = attributes.inputs.iter().map(|input| &input.spec);
        let outputs: Vec<&Spec> = match &attributes.outputs {
            Outputs::Implied => Vec::new(),
            Outputs::Single(_, spec) => vec![spec],
            Outputs::Named(_, outputs) => outputs.iter().map(|output| &output.spec).collect(),
        };
        inputs
            .chain(outputs)
            .flat_map(|spec| spec.dims.iter().flatten())
    }

    /// Whether they read this name of `config`.
    pub fn specs_read(&self, name: &Ident) -> bool {
        let name = HashSet::from([name.to_string()]);
        self.spec_dims()
            .any(|dim| tokens::mentions(&dim.to_token_stream(), &name))
    }

    fn all_picks(&self) -> Vec<String> {
        let of_fields = self.fields.iter().flat_map(|field| {
            let from = field.attributes.from.iter();
            from.chain(&field.attributes.add)
                .flat_map(|(_, sources)| sources)
        });
        let outputs = self.outputs();
        let of_outputs = outputs.iter().filter_map(|(_, source)| source.as_ref());
        let mut picks = Vec::new();
        for source in of_fields.chain(of_outputs) {
            if let Some(Pick::Named(name)) = &source.pick {
                let name = name.unraw().to_string();
                if !picks.contains(&name) {
                    picks.push(name);
                }
            }
        }
        picks
    }
}

/// Whether a field's configuration is anything but its type's own.
pub fn has_settings(field: &Field<'_>) -> bool {
    let attributes = &field.attributes;
    !attributes.settings.is_empty()
        || attributes.base.is_some()
        || attributes.repeat.is_some()
        || attributes.when.is_some()
        || attributes.tie.is_some()
}
