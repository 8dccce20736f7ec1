//! What stands beside errors, so that they bring no others with them.

use super::names::Names;
use super::{config, enclosed, settings};
use crate::ast::{Body, Field, Model};
use crate::validate;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

/// The errors, and a layer of which nothing is known. The settings of sound fields are kept, so that
/// what rustc has to say of them is said in the same round.
pub fn stub(model: &Model<'_>, errors: &[syn::Error]) -> TokenStream {
    let errors = errors.iter().map(syn::Error::to_compile_error);
    let stub = match model.body {
        Body::Other => TokenStream::new(),
        Body::Struct(_) | Body::Enum(_) => enclosed(&layer(model)),
    };
    quote!(#(#errors)* #stub)
}

fn layer(model: &Model<'_>) -> TokenStream {
    // There is no sound way to write the rest for what was reported of generics.
    if model.original.generics.lifetimes().next().is_some() || validate::has_unbounded(model) {
        return TokenStream::new();
    }
    let names = Names::new(model);
    let Names {
        private,
        config: config_ty,
        ..
    } = &names;
    let this = names.this();
    let (generics, _, clause) = model.original.generics.split_for_impl();
    let config = config::expand(&names);
    let constructors = config::constructors(&names);
    let unpack = names.unpack(&quote!(__config));
    let sound = names.fields.iter().filter(|field| is_sound(field));
    let literals = sound.map(|field| {
        let value = settings::literal(&names, field, &TokenStream::new());
        quote_spanned!(field.ty.span()=> let _ = #value;)
    });
    quote! {
        #config
        #constructors
        impl #generics #private::Layer for #this #clause {
            type Config = #config_ty;
            type Rule<__C: #private::Value<Of = #config_ty>, __I: #private::Carry> = #private::Unknown;
            fn from_config(__config: #config_ty) -> Self {
                #unpack
                #(#literals)*
                ::core::panic!("this model has errors")
            }
            fn forward<'__g>(
                &self,
                __graph: &'__g #private::Graph,
                __inputs: &[#private::Tensor<'__g>],
            ) -> #private::Vec<#private::Tensor<'__g>> {
                #private::Vec::new()
            }
        }
        impl #generics #private::Model for #this #clause {
            const INPUTS: &'static [#private::TensorSpec] = &[];
            const OUTPUTS: &'static [#private::TensorSpec] = &[];
        }
    }
}

/// Whether the settings of a field can be looked at although something is wrong somewhere.
fn is_sound(field: &Field<'_>) -> bool {
    let attributes = &field.attributes;
    !attributes.settings.is_empty()
        && attributes.tie.is_none()
        && attributes.base.is_none()
        && !attributes.broken.get()
}
