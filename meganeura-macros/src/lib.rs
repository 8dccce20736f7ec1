//! The derive macro of meganeura: a model is a struct.
//!
//! [`macro@Model`] turns a struct of layer descriptions into a layer of its own, [`macro@layer`]
//! completes the `impl` of a leaf layer, [`check!`] looks at a model with given settings. How they are
//! used is told by the guide in the crate `meganeura`; this is how they are made:
//!
//! - `parse` reads attributes into the types of `ast`, which keep the user's own tokens;
//! - `validate` finds what the grammar alone does not: names, order, counts;
//! - `expand` writes the code.
//!
//! Errors are collected in a `context::Context` along the way, so that a reader sees all of them at
//! once.

mod ast;
mod check;
mod context;
mod dims;
mod expand;
mod layer;
mod nearest;
mod parse;
mod tokens;
mod validate;

use context::Context;
use proc_macro::TokenStream;

/// Makes a model of a struct of layers, or of an enum of layers to choose from.
///
/// See the guide in `meganeura::guide::dsl`.
#[proc_macro_derive(Model, attributes(model, layer))]
pub fn derive_model(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    let context = Context::new();
    let model = parse::model(&context, &input);
    validate::model(&context, &model);
    match context.finish() {
        Ok(()) => expand::model(&model),
        Err(errors) => expand::stub(&model, &errors),
    }
    .into()
}

/// Completes the `impl` block of a leaf layer.
///
/// See the guide in `meganeura::guide::dsl`.
#[proc_macro_attribute]
pub fn layer(arguments: TokenStream, item: TokenStream) -> TokenStream {
    layer::expand(arguments.into(), item.into()).into()
}

/// Checks the shapes of a model with given settings at compile time.
///
/// See the guide in `meganeura::guide::dsl`.
#[proc_macro]
pub fn check(input: TokenStream) -> TokenStream {
    check::expand(input.into()).into()
}
