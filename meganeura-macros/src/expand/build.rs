//! Making a model and building its graph.

use super::config::constructors;
use super::docs;
use super::names::{Names, has_settings};
use super::readback;
use super::settings::{literal, tie_source, tied_value};
use crate::ast::{Body, Config, Field, Pick, Source};
use crate::dims::{Reading, Scope};
use crate::tokens::plain;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Index, Member, Type};

/// ```text
/// impl Layer for Block {
///     type Config = BlockConfig;
///     type Rule<__C: Value<Of = BlockConfig>, __I: Carry> = Rule<Self, __C, __I>;
///     fn from_config(__config: BlockConfig) -> Self { ... }
///     fn shape(&self, __inputs: &Shapes) -> Shapes { ... }
///     fn output_names(&self) -> &'static [&'static str] { ... }
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
    let config_method = readback::config(names);
    quote! {
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

            #config_method

            fn output_names(&self) -> &'static [&'static str] {
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

/// ```text
/// impl Model for Block {
///     const INPUTS: &'static [TensorSpec] = &[...];
///     const OUTPUTS: &'static [TensorSpec] = &[...];
/// }
/// ```
pub fn model(names: &Names<'_>) -> TokenStream {
    let private = &names.private;
    let (generics, _, clause) = names.model.original.generics.split_for_impl();
    let this = names.this();
    let scope = Scope::new(names.model, Reading::Names);
    let (inputs, outputs) = (names.input_specs(&scope), names.output_specs(&scope));
    let readback = readback::specs(names);
    // Else they stand where the constructors are.
    let wrapper = matches!(names.model.attributes.config, Config::Of(..));
    let docs = wrapper.then(|| docs::expand(names));
    quote! {
        #docs
        impl #generics #private::Model for #this #clause {
            const INPUTS: &'static [#private::TensorSpec] = #inputs;
            const OUTPUTS: &'static [#private::TensorSpec] = #outputs;
            #readback
        }
    }
}

/// Every field from its configuration, in order, since a tied one needs that of an earlier one:
///
/// ```text
/// let BlockConfig { width } = __config;
/// let __config0 = ConfigOf::<Linear> { out: width, ..BASE };
/// Self { first: <Linear as Part>::from_config(__config0), ... }
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
        quote_spanned!(place=> #member: <#ty as #private::Part>::from_config(#config))
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
        <Self as #private::Set<#index, #private::Base<Self>>>::SET.value
    }
}

/// ```text
/// let __run = Run::new(__graph, __inputs, &<Self as Model>::inputs(self));
/// let __input0 = __run.input(0);
/// let __value0 = __run.field("hidden", "hidden", &self.hidden, &[&__input0]);
/// __run.finish(&[&__value0], &<Self as Model>::outputs(self))
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
        __run.finish(&[#(#outputs),*], &<Self as #private::Model>::outputs(self))
    }
}

fn run_field(names: &Names<'_>, index: usize, field: &Field<'_>) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let (name, ty) = (&field.name, field.ty);
    let member = member_at(&field.member, place);
    let value = value_name(index, place);
    let path = path_of(field);
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
    let treatment = treatment(names, field);
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
            <#ty as #private::Part>::as_dyn(&self.#member),
            &[#(#sources),*],
            #treatment,
        );
        #(#residual)*
        #(#added)*
    }
}

/// What the words `freeze`, `init`, `recompute` and `tie` say, as an `Option<Treatment>`.
fn treatment(names: &Names<'_>, field: &Field<'_>) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let attributes = &field.attributes;
    let (frozen, recomputed) = (attributes.freeze.is_some(), attributes.recompute.is_some());
    let init = match &attributes.init {
        Some((_, init)) => {
            let init = initializer(names, init);
            quote_spanned!(place=> #private::Option::Some(#private::Start { is: #init }.is))
        }
        None => quote_spanned!(place=> #private::Option::None),
    };
    let tied = match tie_root(names, field) {
        Some(root) => {
            let path = path_of(root);
            quote_spanned!(place=> #private::Option::Some(#private::String::from(#path)))
        }
        None => quote_spanned!(place=> #private::Option::None),
    };
    let said = frozen || recomputed || attributes.init.is_some() || attributes.tie.is_some();
    if !said {
        return quote_spanned!(place=> #private::Option::None);
    }
    quote_spanned! {place=>
        #private::Option::Some(#private::Treatment {
            frozen: #frozen,
            init: #init,
            recomputed: #recomputed,
            tied: #tied,
        })
    }
}

/// A way to start: a bare name like `Orthogonal` is one of `Init`, anything else is a value.
fn initializer(names: &Names<'_>, init: &Expr) -> TokenStream {
    let path = match init {
        Expr::Path(path) => Some(&path.path),
        Expr::Struct(literal) => Some(&literal.path),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => Some(&path.path),
            _ => None,
        },
        _ => None,
    };
    let name = path.and_then(|path| path.get_ident());
    match name {
        Some(name) if name.to_string().contains(char::is_lowercase) => {
            let private = names.private_at(name.span());
            // The two that are known by the names of their inventors.
            let text = name.to_string();
            let known = match text.as_str() {
                "Kaiming" => Some("KaimingNormal"),
                "Xavier" => Some("XavierUniform"),
                _ => None,
            };
            match known {
                Some(known) => {
                    let known = Ident::new(known, name.span());
                    quote_spanned!(name.span()=> #private::Init::#known)
                }
                None => quote_spanned!(name.span()=> #private::Init::#init),
            }
        }
        _ => quote!(#init),
    }
}

/// The field whose parameters a tied field uses in the end.
fn tie_root<'n>(names: &'n Names<'_>, field: &Field<'_>) -> Option<&'n Field<'n>> {
    let (source, _) = tie_source(names, field)?;
    let source = names.fields[source];
    Some(tie_root(names, source).unwrap_or(source))
}

/// Where a field's parameters stand. `{i}` is the number of the repetition around the field, and
/// `{#}` that of the elements of the field itself.
fn path_of(field: &Field<'_>) -> String {
    let Some((_, path)) = &field.attributes.rename else {
        return field.name.clone();
    };
    let repeats = field.attributes.repeat.is_some() || matches!(plain(field.ty), Type::Array(_));
    match repeats {
        true => path.value().replace("{i}", "{#}"),
        false => path.value(),
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
