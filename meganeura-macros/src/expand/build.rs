//! Making a model and building its graph.

use super::config::constructors;
use super::names::{Names, has_settings};
use super::settings::{literal, tie_source, tied_value};
use crate::ast::{Body, Field, Pick, Source};
use crate::validate::dims::Scope;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Index, Member};

/// ```ignore
/// impl Layer for Block {
///     type Config = BlockConfig;
///     type Rule<__C: Value<Of = BlockConfig>, __I: Carry> = Rule<Self, __C, __I>;
///     fn from_config(__config: BlockConfig) -> Self { ... }
///     fn shape(&self, __inputs: &Shapes) -> Shapes { ... }
///     fn outputs(&self) -> &'static [&'static str] { ... }
///     fn forward<'__g>(&self, ...) -> Vec<Tensor<'__g>> { ... }
/// }
/// ```
pub fn layer(names: &Names<'_>) -> TokenStream {
    let Names {
        private, config, ..
    } = names;
    let (generics, _, clause) = names.model.original.generics.split_for_impl();
    let this = names.this();
    let made = from_config(names);
    let forward = forward(names);
    let outputs = names.outputs().into_iter().map(|(name, _)| name);
    let outputs: Vec<String> = outputs.filter(|name| !name.is_empty()).collect();
    let constructors = constructors(names);
    quote! {
        #[diagnostic::do_not_recommend]
        impl #generics #private::Layer for #this #clause {
            type Config = #config;
            type Rule<__C: #private::Value<Of = #config>, __I: #private::Carry> =
                #private::Rule<Self, __C, __I>;

            fn from_config(__config: #config) -> Self {
                #made
            }

            fn shape(&self, __inputs: &#private::Shapes) -> #private::Shapes {
                #private::entered(__inputs, &<Self as #private::Model>::inputs(self))
            }

            fn outputs(&self) -> &'static [&'static str] {
                &[#(#outputs),*]
            }

            fn forward<'__g>(
                &self,
                __graph: &'__g #private::Graph,
                __inputs: &[#private::Tensor<'__g>],
            ) -> #private::Vec<#private::Tensor<'__g>> {
                #forward
            }
        }
        #constructors
    }
}

/// ```ignore
/// impl Model for Block {
///     const INPUTS: &'static [TensorSpec] = &[...];
///     const OUTPUTS: &'static [TensorSpec] = &[...];
/// }
/// ```
pub fn model(names: &Names<'_>) -> TokenStream {
    let private = &names.private;
    let (generics, _, clause) = names.model.original.generics.split_for_impl();
    let this = names.this();
    let scope = Scope::without_config(names.model);
    let (inputs, outputs) = (names.input_specs(&scope), names.output_specs(&scope));
    quote! {
        impl #generics #private::Model for #this #clause {
            const INPUTS: &'static [#private::TensorSpec] = #inputs;
            const OUTPUTS: &'static [#private::TensorSpec] = #outputs;
        }
    }
}

/// Every field from its configuration, in order, since a tied one needs that of an earlier one:
///
/// ```ignore
/// let BlockConfig { width } = __config;
/// let __config0 = ConfigOf::<Linear> { out: width, ..BASE };
/// Self { first: <Linear as Layer>::from_config(__config0), ... }
/// ```
fn from_config(names: &Names<'_>) -> TokenStream {
    let unpack = names.unpack(&quote!(__config));
    let lets = names.fields.iter().enumerate().map(|(index, field)| {
        let place = field.ty.span();
        let name = format_ident!("__config{index}", span = place);
        let value = value_of(names, index, field);
        quote_spanned!(place=> let #name = #value;)
    });
    let layers = names.fields.iter().enumerate().map(|(index, field)| {
        let place = field.ty.span();
        let private = names.private_at(place);
        let (member, ty) = (&field.member, field.ty);
        let config = format_ident!("__config{index}", span = place);
        quote_spanned!(place=> #member: <#ty as #private::Layer>::from_config(#config))
    });
    let skipped = match &names.model.body {
        Body::Struct(fields) => fields.as_slice(),
        Body::Enum(_) | Body::Other => &[],
    };
    let skipped = skipped
        .iter()
        .filter(|field| field.attributes.skip.is_some());
    let skipped = skipped.map(|field| {
        let member = &field.member;
        quote_spanned!(field.ty.span()=> #member: ::core::default::Default::default())
    });
    quote! {
        #unpack
        #(#lets)*
        Self { #(#layers,)* #(#skipped,)* }
    }
}

/// A field's configuration when the model is made.
fn value_of(names: &Names<'_>, index: usize, field: &Field<'_>) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let ty = field.ty;
    if !has_settings(field) {
        return quote_spanned!(place=> <#private::ConfigOf<#ty> as #private::Settings>::BASE);
    }
    let value = literal(names, field, &tied_value(names, field));
    if names.reads_config(&value) || tie_source(names, field).is_some() {
        return value;
    }
    // It is the same whatever the model's own settings are, and known already.
    quote_spanned! {place=>
        <Self as #private::Set<#index, #private::Base<Self>>>::VALUE
    }
}

/// ```ignore
/// let __run = Run::new(__graph, __inputs, &<Self as Model>::inputs(self));
/// let __input0 = __run.input(0);
/// let __value0 = __run.field("hidden", "hidden", &self.hidden, &[&__input0]);
/// __run.finish(&[&__value0], <Self as Model>::OUTPUTS)
/// ```
fn forward(names: &Names<'_>) -> TokenStream {
    let private = &names.private;
    let check = names
        .is_generic()
        .then(|| quote!(const { <Self as #private::Checked>::CHECK };));
    let inputs = (0..names.model.attributes.inputs.len()).map(|index| {
        let input = input_name(index, Span::call_site());
        quote!(let #input = __run.input(#index);)
    });
    let fields = names.fields.iter().enumerate();
    let fields = fields.map(|(index, field)| run_field(names, index, field));
    let outputs = names.outputs().into_iter().map(|(_, source)| match source {
        Some(source) => value(names, &source, "", Span::call_site()),
        None => {
            let last = value_name(names.fields.len() - 1, Span::call_site());
            quote!(&#last)
        }
    });
    quote! {
        #check
        let __run = #private::Run::new(__graph, __inputs, &<Self as #private::Model>::inputs(self));
        #(#inputs)*
        #(#fields)*
        __run.finish(&[#(#outputs),*], <Self as #private::Model>::OUTPUTS)
    }
}

fn run_field(names: &Names<'_>, index: usize, field: &Field<'_>) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let (name, ty) = (&field.name, field.ty);
    let member = member_at(&field.member, place);
    let value = value_name(index, place);
    let path = match &field.attributes.rename {
        Some((_, path)) => path.value(),
        None => name.clone(),
    };
    let sources: Vec<TokenStream> = match &field.attributes.from {
        Some((_, sources)) => sources
            .iter()
            .map(|source| self::value(names, source, name, place))
            .collect(),
        None if index > 0 => {
            let before = value_name(index - 1, place);
            vec![quote_spanned!(place=> &#before)]
        }
        None => (0..names.model.attributes.inputs.len())
            .map(|input| {
                let input = input_name(input, place);
                quote_spanned!(place=> &#input)
            })
            .collect(),
    };
    let residual = field.attributes.residual.iter().map(|_| {
        quote_spanned! {place=>
            let #value = __run.add(#path, #private::Sum::Residual, #value, &[#(#sources),*]);
        }
    });
    let added = field.attributes.add.iter().map(|(_, added)| {
        let added = added
            .iter()
            .map(|source| self::value(names, source, name, place));
        quote_spanned! {place=>
            let #value = __run.add(#path, #private::Sum::Added, #value, &[#(#added),*]);
        }
    });
    quote_spanned! {place=>
        let #value = __run.field(
            #name,
            #path,
            <#ty as #private::Layer>::as_dyn(&self.#member),
            &[#(#sources),*],
        );
        #(#residual)*
        #(#added)*
    }
}

/// A reference to a named value, for the field `taker`.
fn value(names: &Names<'_>, source: &Source, taker: &str, place: Span) -> TokenStream {
    let Some(index) = names.field_of(source) else {
        let input = input_name(names.input_of(source).unwrap_or(0), place);
        return quote_spanned!(place=> &#input);
    };
    let from = value_name(index, place);
    match &source.pick {
        None => quote_spanned!(place=> &#from),
        Some(Pick::At(output)) => quote_spanned!(place=> &__run.pick(#taker, &#from, #output)),
        Some(Pick::Named(output)) => {
            let output = output.unraw().to_string();
            quote_spanned!(place=> &__run.pick_named(#taker, &#from, #output))
        }
    }
}

fn input_name(index: usize, place: Span) -> Ident {
    format_ident!("__input{index}", span = place)
}

fn value_name(index: usize, place: Span) -> Ident {
    format_ident!("__value{index}", span = place)
}

/// A field as it is named, standing somewhere else.
fn member_at(member: &Member, place: Span) -> Member {
    match member {
        Member::Named(name) => {
            let mut name = name.clone();
            name.set_span(name.span().located_at(place));
            Member::Named(name)
        }
        Member::Unnamed(index) => Member::Unnamed(Index {
            index: index.index,
            span: place,
        }),
    }
}
