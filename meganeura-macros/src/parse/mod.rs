//! Reading attributes. Nothing here gives up early: what cannot be read is reported and left out.

mod expression;
mod field;
mod list;
mod spec;
mod words;

use crate::ast::{Body, Config, Field, Model, ModelAttributes, Variant};
use crate::context::Context;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DataEnum, DeriveInput, Fields, Index, Member, Meta};

/// Reads everything there is to read about a model.
pub fn model<'a>(context: &Context, input: &'a DeriveInput) -> Model<'a> {
    let mut attributes = ModelAttributes::default();
    for attribute in &input.attrs {
        if attribute.path().is_ident("model") {
            if let Some(tokens) = arguments(context, attribute, "input(x: [batch, 64])") {
                words::read(context, tokens, &mut attributes);
            }
        } else if attribute.path().is_ident("layer") {
            let message =
                "`#[layer(...)]` stands on a field; the model's own attribute is `#[model(...)]`";
            context.error(attribute.path().span(), message);
        }
    }
    without_generics(context, input, &mut attributes);
    let body = match &input.data {
        Data::Struct(data) => Body::Struct(fields(context, &data.fields)),
        Data::Enum(data) => Body::Enum(variants(context, data)),
        Data::Union(data) => {
            let message = "a model is a struct of layers or an enum of layers, not a union";
            context.error(data.union_token.span, message);
            Body::Other
        }
    };
    Model {
        original: input,
        attributes,
        body,
    }
}

/// Drops names of `config` that are const generics already.
fn without_generics(context: &Context, input: &DeriveInput, attributes: &mut ModelAttributes) {
    if let Config::Names(names) = &mut attributes.config {
        names.retain(|config| {
            let mut generics = input.generics.const_params();
            let clashes = generics.any(|generic| generic.ident == config.name);
            if clashes {
                let message = format!("`{}` is a const generic already", config.name);
                context.error(config.name.span(), message);
            }
            !clashes
        });
    }
}

/// The tokens in the parentheses of an attribute.
fn arguments(
    context: &Context,
    attribute: &Attribute,
    example: &str,
) -> Option<proc_macro2::TokenStream> {
    match &attribute.meta {
        Meta::List(list) => Some(list.tokens.clone()),
        other => {
            let name = attribute.path().to_token_stream();
            let message = format!("write `#[{name}(...)]`, as in `#[{name}({example})]`");
            context.error(other.path().span(), message);
            None
        }
    }
}

fn fields<'a>(context: &Context, fields: &'a Fields) -> Vec<Field<'a>> {
    let read = |(index, field): (usize, &'a syn::Field)| {
        let (member, name, place) = match &field.ident {
            Some(name) => (
                Member::Named(name.clone()),
                name.unraw().to_string(),
                name.span(),
            ),
            None => (
                Member::Unnamed(Index::from(index)),
                index.to_string(),
                field.ty.span(),
            ),
        };
        Field {
            ty: &field.ty,
            member,
            name,
            place,
            attributes: field::attributes(context, &field.attrs),
        }
    };
    fields.iter().enumerate().map(read).collect()
}

fn variants<'a>(context: &Context, data: &'a DataEnum) -> Vec<Variant<'a>> {
    let mut variants = Vec::new();
    for variant in &data.variants {
        let name = &variant.ident;
        for attribute in &variant.attrs {
            if attribute.path().is_ident("model") || attribute.path().is_ident("layer") {
                let message =
                    "a variant takes no attribute: its settings are given where one is chosen";
                context.error(attribute.path().span(), message);
            }
        }
        match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => variants.push(Variant {
                name,
                ty: &fields.unnamed[0].ty,
            }),
            _ => {
                let message = format!("a variant holds exactly one layer: write `{name}(Layer)`");
                context.error(name.span(), message);
            }
        }
    }
    variants
}
