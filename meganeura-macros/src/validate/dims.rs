//! The dims of inputs and outputs: which names are free, and what is done with them.

use crate::ast::{Model, Outputs, Spec};
use crate::context::Context;
use crate::dims::{Reading, Scope};
use crate::nearest::nearest;
use crate::tokens::names_in;
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, Ident, Lit};

/// Checks the dims of a model, and that settings do not depend on free ones.
pub fn check(context: &Context, model: &Model<'_>) {
    let scope = Scope::new(model, Reading::Values);
    let mut declared = Vec::new();
    for input in &model.attributes.inputs {
        spec(context, &scope, &input.spec);
        for dim in input.spec.dims.iter().flatten() {
            declared.extend(scope.open_in(dim).into_iter().map(ToString::to_string));
        }
    }
    let all_declared = model
        .attributes
        .inputs
        .iter()
        .all(|input| input.spec.dims.is_some());
    let output = |output: &Spec| {
        spec(context, &scope, output);
        let dims = output.dims.iter().flatten();
        for name in dims
            .flat_map(|dim| scope.open_in(dim))
            .filter(|_| all_declared)
        {
            unknown_name(context, model, &declared, name);
        }
    };
    match &model.attributes.outputs {
        Outputs::Implied => {}
        Outputs::Single(_, spec) => output(spec),
        Outputs::Named(_, outputs) => outputs.iter().for_each(|named| output(&named.spec)),
    }
    settings(context, model, &declared);
    initial(context, model);
}

/// A free name in an output that no input has.
fn unknown_name(context: &Context, model: &Model<'_>, declared: &[String], name: &Ident) {
    let text = name.to_string();
    if declared.contains(&text) {
        return;
    }
    let config = model
        .config_names()
        .iter()
        .map(|config| config.name.to_string());
    let known: Vec<String> = declared.iter().cloned().chain(config).collect();
    let hint = match nearest(&text, known.iter().map(String::as_str)) {
        Some(close) => format!("did you mean `{close}`?"),
        None => {
            "an output can only use dims of the inputs, names from `config` and values".to_owned()
        }
    };
    context.error(name.span(), format!("no input has a dim `{text}`: {hint}"));
}

fn spec(context: &Context, scope: &Scope, spec: &Spec) {
    for dim in spec.dims.iter().flatten() {
        arithmetic(context, scope, dim);
    }
    if let Some(dims) = &spec.dims
        && dims.len() > 6
    {
        let message = "a tensor has at most 6 dims here";
        context.error(dims[6].span(), message);
    }
    if let Some(dtype) = &spec.dtype {
        let text = dtype.to_string();
        let known = ["f32", "u32", "bool"];
        if !known.contains(&text.as_str()) {
            let hint = match text.as_str() {
                "f64" | "f16" | "float" => "did you mean `f32`?",
                "i32" | "u64" | "i64" | "usize" | "u8" | "int" => "did you mean `u32`?",
                _ => "there are f32, u32, bool",
            };
            context.error(dtype.span(), format!("no dtype `{text}`: {hint}"));
        }
    }
}

/// Reports what cannot be done with a free dim.
fn arithmetic(context: &Context, scope: &Scope, dim: &Expr) {
    if let Expr::Lit(literal) = dim
        && !matches!(literal.lit, Lit::Int(_))
    {
        context.error(literal.span(), "a dim is a whole number or a name");
        return;
    }
    let free = scope.open_in(dim);
    let Some(name) = free.first() else { return };
    let problem = |place: Span| {
        let message = format!(
            "`{name}` is free: constants can be added to it, taken from it, and multiplied with it, \
             nothing else"
        );
        context.error(place, message);
    };
    match dim {
        Expr::Path(_) => {}
        Expr::Paren(inner) => arithmetic(context, scope, &inner.expr),
        Expr::Group(inner) => arithmetic(context, scope, &inner.expr),
        Expr::Binary(binary) => {
            let known = matches!(
                binary.op,
                BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_)
            );
            let divides = matches!(binary.op, BinOp::Div(_));
            if !known || (divides && !scope.open_in(&binary.right).is_empty()) {
                return problem(binary.op.span());
            }
            arithmetic(context, scope, &binary.left);
            arithmetic(context, scope, &binary.right);
        }
        other => problem(other.span()),
    }
}

/// How parameters start is no part of a description, so it cannot depend on one.
fn initial(context: &Context, model: &Model<'_>) {
    for field in model.layers() {
        let Some((_, init)) = &field.attributes.init else {
            continue;
        };
        for name in names_in(init) {
            if model
                .config_names()
                .iter()
                .any(|config| config.name == *name)
            {
                let message = format!("`init` takes constants, and `{name}` may change");
                context.error(name.span(), message);
            }
        }
    }
}

/// Settings are known when the model is made, free dims only when its graph is built.
fn settings(context: &Context, model: &Model<'_>, free: &[String]) {
    for field in model.layers() {
        let attributes = &field.attributes;
        let values = attributes
            .settings
            .iter()
            .map(|setting| (setting.name.to_string(), &setting.value));
        let words = [("repeat", &attributes.repeat), ("when", &attributes.when)];
        let words = words
            .into_iter()
            .filter_map(|(word, slot)| slot.as_ref().map(|(_, value)| (word.to_owned(), value)));
        for (setting, value) in values.chain(words) {
            for name in names_in(value) {
                let text = name.to_string();
                if free.contains(&text) {
                    let message = format!(
                        "`{text}` is a free dim, known only when the graph is built, so `{setting}` \
                         cannot use it: make it a setting of the model, `config({text}: usize = 64)`"
                    );
                    context.error(name.span(), message);
                }
            }
        }
    }
}
