//! Finding settings of a model in its fields.
//!
//! A description keeps its fields, not the `config` it was made from: whoever changes a field must see
//! the change everywhere. Where a setting is handed on unchanged, `#[layer(out = width)]`, it is read
//! back from there.

use super::names::Names;
use crate::ast::{Config, ConfigName, Field};
use crate::dims::{Reading, Scope};
use crate::tokens::last_name;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Expr, Ident};

/// ```text
/// const SETTINGS: &'static [&'static str] = &["width"];
/// fn inputs_with(&self, __sizes: &[(&str, usize)]) -> Vec<TensorSpec> {
///     let width = size("width", <Embedding as Part>::config(&self.embed).map(|__config| __config.width), __sizes);
///     Vec::from(&[TensorSpec { name: "x", dims: Dims::of(&[Dim::free("batch"), width]) }])
/// }
/// ```
///
/// and the same for the outputs, if their shapes use names of `config`.
pub fn specs(names: &Names<'_>) -> TokenStream {
    if !names.specs_read_config() {
        return TokenStream::new();
    }
    let private = &names.private;
    let scope = Scope::new(names.model, Reading::Dims);
    let (inputs, outputs) = (names.input_specs(&scope), names.output_specs(&scope));
    let list = names.model.config_names().iter();
    let used: Vec<&ConfigName> = list
        .filter(|config| names.specs_read(&config.name))
        .collect();
    let texts: Vec<String> = used
        .iter()
        .map(|config| config.name.unraw().to_string())
        .collect();
    let dims = used.iter().zip(&texts).map(|(config, text)| {
        let name = &config.name;
        let is_size = last_name(&config.ty).is_some_and(|ty| ty == "usize");
        let found = found(names, name).filter(|_| is_size);
        let found = found.unwrap_or_else(|| quote!(#private::Option::None));
        quote!(let #name = #private::size(#text, #found, __sizes);)
    });
    let dims: TokenStream = dims.collect();
    quote! {
        const SETTINGS: &'static [&'static str] = &[#(#texts),*];

        fn inputs_with(
            &self,
            __sizes: &[(&::core::primitive::str, ::core::primitive::usize)],
        ) -> #private::Vec<#private::TensorSpec> {
            #dims
            #private::Vec::from(#inputs)
        }

        fn outputs_with(
            &self,
            __sizes: &[(&::core::primitive::str, ::core::primitive::usize)],
        ) -> #private::Vec<#private::TensorSpec> {
            #dims
            #private::Vec::from(#outputs)
        }
    }
}

/// The whole configuration, if all of it can be found:
///
/// ```text
/// fn config(&self) -> Option<BlockConfig> {
///     Some(BlockConfig { width: <Embedding as Part>::config(&self.embed).map(|__config| __config.width)? })
/// }
/// ```
pub fn config(names: &Names<'_>) -> TokenStream {
    let Names {
        private, config, ..
    } = names;
    let value = match &names.model.attributes.config {
        Config::None => Some(quote!(#private::Option::Some(#config {}))),
        Config::Of(..) => {
            let wrapped = names.fields.iter().find(|field| {
                let base = field.attributes.base.as_ref();
                let whole = base.is_some_and(|base| is_name(base, "config"));
                whole && field.attributes.settings.is_empty()
            });
            wrapped.map(|field| {
                let (member, ty) = (&field.member, field.ty);
                quote!(<#ty as #private::Part>::config(&self.#member))
            })
        }
        Config::Names(list) => {
            let parts = list.iter().map(|config| {
                let name = &config.name;
                found(names, name).map(|found| quote!(#name: #found?))
            });
            let parts: Option<Vec<TokenStream>> = parts.collect();
            parts.map(|parts| quote!(#private::Option::Some(#config { #(#parts),* })))
        }
    };
    match value {
        Some(value) => quote! {
            fn config(&self) -> #private::Option<#config> {
                #value
            }
        },
        None => TokenStream::new(),
    }
}

/// The code for what a name of `config` was, as an `Option`; `None` if no field was handed it as it is.
fn found(names: &Names<'_>, name: &Ident) -> Option<TokenStream> {
    let private = &names.private;
    let handed = |field: &&Field<'_>| {
        let member = &field.member;
        if let Some((_, count)) = &field.attributes.repeat
            && is_name(count, &name.to_string())
        {
            return Some(quote!(#private::Option::Some(self.#member.len())));
        }
        let mut settings = field.attributes.settings.iter();
        let setting = settings.find(|setting| is_name(&setting.value, &name.to_string()))?;
        let (ty, setting) = (field.ty, &setting.name);
        let config = quote!(<#ty as #private::Part>::config(&self.#member));
        Some(if field.attributes.repeat.is_some() {
            quote!(#config.map(|__config| __config.each.#setting))
        } else if field.attributes.when.is_some() {
            quote!(#config.and_then(|__config| __config).map(|__config| __config.#setting))
        } else {
            quote!(#config.map(|__config| __config.#setting))
        })
    };
    names.fields.iter().find_map(handed)
}

fn is_name(expression: &Expr, name: &str) -> bool {
    match expression {
        Expr::Path(path) => path.path.is_ident(name),
        Expr::Group(group) => is_name(&group.expr, name),
        _ => false,
    }
}
