//! What the grammar alone does not find: names that lead nowhere, words that do not go together, types
//! that are plainly no layers.

mod dims;
mod names;
mod types;

use crate::ast::{Body, Config, Field, Model};
use crate::context::Context;
use crate::tokens::last_name;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, Type, WherePredicate};

/// Reports everything that is wrong with a model as far as a macro can see.
pub fn model(context: &Context, model: &Model<'_>) {
    for lifetime in model.original.generics.lifetimes() {
        let message = format!(
            "a model owns its layers and cannot have the lifetime `{}`",
            lifetime.lifetime
        );
        context.error(lifetime.lifetime.span(), message);
    }
    match &model.body {
        Body::Struct(fields) => {
            structure(context, model);
            for field in fields {
                words(context, field);
            }
            names::check(context, model);
            dims::check(context, model);
        }
        Body::Enum(variants) => {
            if variants.is_empty() && context.is_clean() {
                let message = "a choice needs something to choose from: write `Name(Layer)`";
                context.error(model.original.ident.span(), message);
            }
            for variant in variants {
                types::check_layer(context, variant.ty, "");
            }
            choice(context, model);
        }
        Body::Other => {}
    }
    config(context, model);
    for name in unbounded(model) {
        context.error(
            name.span(),
            format!("`{name}` may be anything: write `{name}: Layer`"),
        );
    }
}

fn structure(context: &Context, model: &Model<'_>) {
    let name = &model.original.ident;
    if model.layers().next().is_none() {
        let message =
            format!("`{name}` has no layers: a model needs at least one field that is a layer");
        context.error(name.span(), message);
    }
    if model.attributes.inputs.is_empty() && context.is_clean() {
        let place = match &model.attributes.input_word {
            Some(word) => word.span(),
            None => name.span(),
        };
        let message = "say what flows in: write `#[model(input(x: [batch, 64]))]`";
        context.error(place, message);
    }
}

fn choice(context: &Context, model: &Model<'_>) {
    let attributes = &model.attributes;
    let message = |word: &str| match word {
        "config" => {
            "an enum takes no `config`: it is configured as the layer that is chosen".to_owned()
        }
        _ => format!(
            "an enum takes no `{word}`: its layers take what flows in and say what they put out"
        ),
    };
    if let Some(word) = &attributes.input_word {
        context.error(word.span(), message("input"));
    }
    match &attributes.outputs {
        crate::ast::Outputs::Implied => {}
        crate::ast::Outputs::Single(word, _) | crate::ast::Outputs::Named(word, _) => {
            context.error(word.span(), message("output"));
        }
    }
    match &attributes.config {
        Config::None => {}
        Config::Of(word, _) => context.error(word.span(), message("config")),
        Config::Names(names) => {
            if let Some(name) = names.first() {
                context.error(name.name.span(), message("config"));
            }
        }
    }
}

/// Checks the words of one field against each other and against its type.
fn words(context: &Context, field: &Field<'_>) {
    let attributes = &field.attributes;
    if let Some(skip) = &attributes.skip {
        let others = !attributes.settings.is_empty()
            || attributes.from.is_some()
            || attributes.residual.is_some()
            || attributes.add.is_some()
            || attributes.repeat.is_some()
            || attributes.tie.is_some()
            || attributes.when.is_some();
        if others {
            let message = "a skipped field is no layer: it takes no settings and no other words";
            context.error(skip.span(), message);
        }
        return;
    }
    types::check_field(context, field);
    if let (Some((tie, _)), Some(_)) = (&attributes.tie, &attributes.base) {
        let message = "`tie` already gives the configuration: take `..` away";
        context.error(tie.span(), message);
    }
    if let Some((_, name)) = &attributes.rename {
        let text = name.value();
        let good = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        if !text.is_empty() && !text.split('.').all(good) {
            let message = "a path is names with dots between, as in \"transformer.h\"";
            context.error(name.span(), message);
        } else if text.replace("{i}", "").contains(['{', '}']) {
            let message = "in a path only `{i}` stands for something else: the number of the \
                           repetition that the field is in";
            context.error(name.span(), message);
        }
    }
}

fn config(context: &Context, model: &Model<'_>) {
    let names = model.config_names();
    for config in names {
        let generics = &model.original.generics;
        for parameter in generics.type_params() {
            if last_name(&config.ty) == Some(&parameter.ident) {
                let message = format!(
                    "the type of `{}` must be known: `{}` is a generic parameter",
                    config.name.unraw(),
                    parameter.ident
                );
                context.error(config.ty.span(), message);
            }
        }
    }
}

/// Type parameters that are fields' types, but not said to be layers.
fn unbounded<'m>(model: &'m Model<'_>) -> Vec<&'m Ident> {
    let generics = &model.original.generics;
    let types: Vec<&Type> = match &model.body {
        Body::Struct(_) => model.layers().map(|field| field.ty).collect(),
        Body::Enum(variants) => variants.iter().map(|variant| variant.ty).collect(),
        Body::Other => Vec::new(),
    };
    let is_part = |name: &Ident| types.iter().any(|ty| last_name(ty) == Some(name));
    let clauses = generics.where_clause.iter();
    let clauses: Vec<&WherePredicate> = clauses.flat_map(|clause| &clause.predicates).collect();
    let has_clause = |name: &Ident| {
        clauses.iter().any(|clause| match clause {
            WherePredicate::Type(bound) => last_name(&bound.bounded_ty) == Some(name),
            _ => false,
        })
    };
    let parameters = generics.type_params().filter(|parameter| {
        let name = &parameter.ident;
        parameter.bounds.is_empty() && is_part(name) && !has_clause(name)
    });
    parameters.map(|parameter| &parameter.ident).collect()
}

/// Whether a type parameter is a field's type, but not said to be a layer.
pub fn has_unbounded(model: &Model<'_>) -> bool {
    !unbounded(model).is_empty()
}
