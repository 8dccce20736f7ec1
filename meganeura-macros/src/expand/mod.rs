//! Writing the code of a model.
//!
//! Everything generated lives in one `const _: () = { ... };`, names what it needs by absolute path
//! through `meganeura::__private`, and starts its own names with two underscores.

mod build;
mod choice;
mod config;
mod dims;
mod docs;
mod names;
mod readback;
mod settings;
mod stub;
mod walk;

pub use stub::stub;

use crate::ast::{Body, Model};
use names::Names;
use proc_macro2::TokenStream;
use quote::quote;

/// The code of a sound model.
pub fn model(model: &Model<'_>) -> TokenStream {
    let names = Names::new(model);
    match &model.body {
        Body::Struct(_) => {
            let content = enclosed(&structure(&names));
            let reports = walk::reports(&names);
            quote!(#content #reports)
        }
        Body::Enum(variants) => enclosed(&choice::expand(&names, variants)),
        Body::Other => TokenStream::new(),
    }
}

/// Generated code is no matter for the user's lints.
fn enclosed(content: &TokenStream) -> TokenStream {
    quote! {
        #[allow(
            unused, non_local_definitions, missing_docs, missing_debug_implementations,
            missing_copy_implementations, unreachable_pub, unused_qualifications, unused_results,
            non_camel_case_types, non_snake_case, single_use_lifetimes, unnameable_types,
            private_interfaces, private_bounds, trivial_casts, trivial_numeric_casts,
            deprecated, clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction
        )]
        const _: () = {
            #content
        };
    }
}

fn structure(names: &Names<'_>) -> TokenStream {
    let config = config::expand(names);
    let settings = settings::expand(names);
    let walk = walk::expand(names);
    let layer = build::layer(names);
    let model = build::model(names);
    let checked = walk::checked(names);
    quote! {
        #config
        #settings
        #walk
        #layer
        #model
        #checked
    }
}
