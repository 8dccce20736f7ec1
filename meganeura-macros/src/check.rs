//! `check!(Block { width: 64, heads: 3 });`: a model with given settings, checked at compile time.

use crate::tokens::{at, private};
use proc_macro2::{Delimiter, Group, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{FieldValue, Member, Path, Token, Type, braced, token};

struct Check {
    krate: Option<Path>,
    ty: Type,
    settings: Punctuated<FieldValue, Token![,]>,
}

impl Parse for Check {
    fn parse(input: ParseStream) -> syn::Result<Check> {
        let mut krate = None;
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            krate = Some(input.call(Path::parse_mod_style)?);
            input.parse::<Token![,]>()?;
        }
        if input.is_empty() {
            return Err(input.error("name a model: `check!(Block { width: 64 })`"));
        }
        let ty = input.parse()?;
        let mut settings = Punctuated::new();
        if input.peek(token::Brace) {
            let content;
            braced!(content in input);
            settings = Punctuated::parse_terminated(&content)?;
        }
        if !input.is_empty() {
            return Err(input.error("expected settings, as in `check!(Block { width: 64 })`"));
        }
        Ok(Check {
            krate,
            ty,
            settings,
        })
    }
}

/// Expands the macro:
///
/// ```text
/// const _: () = {
///     struct __Checked;
///     impl Value for __Checked { type Of = ConfigOf<Block>; const VALUE: ... = ...; const MISSING: ... }
///     report_model("Block", <<Block as Layer>::Rule<__Checked, Standalone> as Carry>::SHAPES)
/// };
/// ```
pub fn expand(input: TokenStream) -> TokenStream {
    let Check {
        krate,
        ty,
        settings,
    } = match syn::parse2(input) {
        Ok(check) => check,
        Err(error) => return error.to_compile_error(),
    };
    let place = ty.span();
    let private = private(krate.as_ref(), place);
    let name = ty.to_token_stream().to_string().replace(' ', "");
    let ty = ty.to_token_stream();
    let ty_here = at(place, ty.clone());
    let set = settings.iter().filter_map(|setting| match &setting.member {
        Member::Named(name) => Some(name.unraw().to_string()),
        Member::Unnamed(_) => None,
    });
    let set: Vec<String> = set.collect();
    let base = quote_spanned!(place=> <#private::ConfigOf<#ty_here> as #private::Settings>::BASE);
    let value = if settings.is_empty() {
        base
    } else {
        let settings = settings.iter();
        let dots = quote_spanned!(place=> ..);
        let mut braces = Group::new(Delimiter::Brace, quote!(#(#settings,)* #dots #base));
        braces.set_span(place);
        let alias = quote_spanned!(place=> #private::ConfigOf::<#ty_here>);
        quote!(#alias #braces)
    };
    quote_spanned! {place=>
        #[allow(unused, clippy::all, clippy::pedantic)]
        const _: () = {
            struct __Checked;
            impl #private::Value for __Checked {
                type Of = #private::ConfigOf<#ty_here>;
                const VALUE: #private::ConfigOf<#ty_here> = #value;
                const MISSING: &'static str = #private::first_missing(
                    <#private::ConfigOf<#ty_here> as #private::Settings>::REQUIRED,
                    &[#(#set),*],
                );
            }
            #private::report_model(
                #name,
                <__Checked as #private::Value>::MISSING,
                <<#ty_here as #private::Part>::Rule<__Checked, #private::Standalone>
                    as #private::Carry>::SHAPES,
            )
        };
    }
}
