//! The configuration type of a model.

use super::docs;
use super::names::Names;
use crate::ast::Config;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;

/// ```text
/// pub struct BlockConfig { pub width: usize, pub heads: usize }
/// impl Settings for BlockConfig {
///     const BASE: Self = BlockConfig { width: 288, heads: <usize as Placeholder>::PLACEHOLDER };
///     const REQUIRED: &'static [&'static str] = &["heads"];
/// }
/// ```
pub fn expand(names: &Names<'_>) -> TokenStream {
    if let Config::Of(..) = names.model.attributes.config {
        return TokenStream::new();
    }
    let Names {
        private, config, ..
    } = names;
    let list = names.model.config_names();
    let fields = list.iter().map(|name| (&name.name, &name.ty));
    let fields = fields.map(|(name, ty)| quote!(pub #name: #ty));
    let values = list.iter().map(|config| {
        let (name, ty) = (&config.name, &config.ty);
        match &config.default {
            Some(default) => quote!(#name: #default),
            None => quote!(#name: <#ty as #private::Placeholder>::PLACEHOLDER),
        }
    });
    let required = list.iter().filter(|config| config.default.is_none());
    let required = required.map(|config| config.name.unraw().to_string());
    quote! {
        pub struct #config { #(#fields),* }
        impl ::core::clone::Clone for #config {
            fn clone(&self) -> Self { *self }
        }
        impl ::core::marker::Copy for #config {}
        impl #private::Settings for #config {
            const BASE: Self = #config { #(#values),* };
            const REQUIRED: &'static [&'static str] = &[#(#required),*];
        }
    }
}

/// The constructors: `new` takes what has no default, `with` changes the rest too.
pub fn constructors(names: &Names<'_>) -> TokenStream {
    let Names {
        private, config, ..
    } = names;
    if let Config::Of(..) = names.model.attributes.config {
        return TokenStream::new();
    }
    let list = names.model.config_names();
    let required: Vec<_> = list
        .iter()
        .filter(|config| config.default.is_none())
        .collect();
    let arguments: Vec<TokenStream> = required
        .iter()
        .map(|config| {
            let (name, ty) = (&config.name, &config.ty);
            quote!(#name: #ty)
        })
        .collect();
    let values: Vec<_> = required.iter().map(|config| &config.name).collect();
    let this = names.this();
    let (generics, _, clause) = names.model.original.generics.split_for_impl();
    let visibility = &names.model.original.vis;
    let with = (!list.is_empty()).then(|| {
        quote! {
            /// The model with settings changed by a function.
            #visibility fn with(#(#arguments,)* __change: impl ::core::ops::FnOnce(&mut #config)) -> Self {
                let mut __config = #config {
                    #(#values,)*
                    ..<#config as #private::Settings>::BASE
                };
                __change(&mut __config);
                <Self as #private::Layer>::from_config(__config)
            }
        }
    });
    let docs = docs::expand(names);
    quote! {
        #docs
        impl #generics #this #clause {
            /// The model with the default settings.
            #visibility fn new(#(#arguments),*) -> Self {
                <Self as #private::Layer>::from_config(#config {
                    #(#values,)*
                    ..<#config as #private::Settings>::BASE
                })
            }
            #with
        }
    }
}
