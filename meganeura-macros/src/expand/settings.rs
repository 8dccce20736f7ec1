//! The configurations of fields.

use super::names::{Names, has_settings};
use crate::ast::{Field, Setting};
use crate::tokens::{argument, at};
use proc_macro2::{Delimiter, Group, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

/// For every field with settings:
///
/// ```text
/// impl<__C: Value<Of = BlockConfig>> Set<0, __C> for Block {
///     type Of = ConfigOf<Linear>;
///     const SET: Setting<Self::Of> = {
///         let BlockConfig { width } = __C::VALUE;
///         Setting::of(ConfigOf::<Linear> { out: width, ..<ConfigOf<Linear> as Settings>::BASE }, &["out"])
///     };
/// }
/// ```
pub fn expand(names: &Names<'_>) -> TokenStream {
    let fields = names.fields.iter().enumerate();
    let fields = fields.filter(|(_, field)| has_settings(field));
    fields
        .map(|(index, field)| set(names, index, field))
        .collect()
}

fn set(names: &Names<'_>, index: usize, field: &Field<'_>) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let ty = field.ty;
    let (generics, _, clause) = names.set_generics.split_for_impl();
    let this = names.this();
    let value = literal(names, field, &tied_const(names, field));
    let unpack = match names.reads_config(&value) {
        true => names.unpack(&quote!(<__C as #private::Value>::VALUE)),
        false => TokenStream::new(),
    };
    let setting = setting(names, field, &value);
    quote_spanned! {place=>
        impl #generics #private::Set<#index, __C> for #this #clause {
            type Of = #private::ConfigOf<#ty>;
            const SET: #private::Setting<#private::ConfigOf<#ty>> = { #unpack #setting };
        }
    }
}

/// The type that the settings of a field configure: what a `Vec` or an `Option` holds, or its own.
pub fn configured<'f>(field: &'f Field<'_>) -> &'f Type {
    let wrapped = field.attributes.repeat.is_some() || field.attributes.when.is_some();
    match argument(field.ty) {
        Some(inner) if wrapped => inner,
        _ => field.ty,
    }
}

/// The value of a field's configuration. `tied` is what it starts from when it is tied.
pub fn literal(names: &Names<'_>, field: &Field<'_>, tied: &TokenStream) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let attributes = &field.attributes;
    let layer = configured(field);
    let base = match (&attributes.base, &attributes.tie) {
        (Some(base), _) => base.to_token_stream(),
        (None, Some(_)) => tied.clone(),
        (None, None) => {
            quote_spanned!(place=> <#private::ConfigOf<#layer> as #private::Settings>::BASE)
        }
    };
    let value = if attributes.settings.is_empty() {
        base
    } else {
        // The path and the braces stand at the user's type, so that a misspelt setting is rustc's
        // own error at the user's own token.
        let alias = quote_spanned!(place=> #private::ConfigOf::<#layer>);
        let settings = attributes
            .settings
            .iter()
            .map(|Setting { name, value }| quote!(#name: #value));
        let dots = quote_spanned!(place=> ..);
        let mut braces = Group::new(Delimiter::Brace, quote!(#(#settings,)* #dots #base));
        braces.set_span(place);
        quote!(#alias #braces)
    };
    if let Some((_, count)) = &attributes.repeat {
        return quote_spanned!(place=> #private::Repetition { count: #count, each: #value });
    }
    if let Some((_, condition)) = &attributes.when {
        return quote_spanned! {place=>
            if #condition { #private::Option::Some(#value) } else { #private::Option::None }
        };
    }
    value
}

/// What a tied field starts from at compile time.
fn tied_const(names: &Names<'_>, field: &Field<'_>) -> TokenStream {
    let Some((source, target)) = tie_source(names, field) else {
        return TokenStream::new();
    };
    let private = names.private_at(target.span());
    let (ty, source_ty) = (field.ty, names.fields[source].ty);
    let value = names.value(source);
    at(
        target.span(),
        quote!(<<#ty as #private::Tie<#source_ty>>::Tied<#value> as #private::Value>::VALUE),
    )
}

/// What a tied field starts from when the model is made.
pub fn tied_value(names: &Names<'_>, field: &Field<'_>) -> TokenStream {
    let Some((source, target)) = tie_source(names, field) else {
        return TokenStream::new();
    };
    let private = names.private_at(target.span());
    let (ty, source_ty) = (field.ty, names.fields[source].ty);
    let value = quote::format_ident!("__config{source}");
    at(
        target.span(),
        quote!(<#ty as #private::Tie<#source_ty>>::tie(#value)),
    )
}

/// The field that another one is tied to, and where that is said.
pub fn tie_source<'f>(names: &Names<'_>, field: &'f Field<'_>) -> Option<(usize, &'f syn::Ident)> {
    let (_, target) = field.attributes.tie.as_ref()?;
    let name = target.unraw().to_string();
    let source = names.fields.iter().position(|field| field.name == name)?;
    Some((source, target))
}

/// A field's configuration together with the first required setting that it leaves open.
fn setting(names: &Names<'_>, field: &Field<'_>, value: &TokenStream) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let missing = if let Some(base) = &field.attributes.base {
        // What the wrapper's user left open is open here.
        match names.reads_config(&base.to_token_stream()) {
            true if is_whole_config(names, base) => {
                quote_spanned!(place=> <__C as #private::Value>::MISSING)
            }
            _ => quote_spanned!(place=> ""),
        }
    } else if let Some((source, _)) = tie_source(names, field) {
        let source = names.value(source);
        quote_spanned!(place=> <#source as #private::Value>::MISSING)
    } else {
        let set = field.attributes.settings.iter();
        let set = set.map(|setting| setting.name.unraw().to_string());
        return quote_spanned!(place=> #private::Setting::of(#value, &[#(#set),*]));
    };
    quote_spanned!(place=> #private::Setting { value: #value, missing: #missing })
}

/// Whether `..config` hands on all that the model was given.
fn is_whole_config(names: &Names<'_>, base: &syn::Expr) -> bool {
    matches!(names.model.attributes.config, crate::ast::Config::Of(..))
        && matches!(base, syn::Expr::Path(path) if path.path.is_ident("config"))
}
