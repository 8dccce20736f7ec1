//! The shapes of a model at compile time.

use super::names::Names;
use crate::ast::{Config, Field, Outputs};
use crate::dims::{Reading, Scope};
use crate::tokens::at;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

/// The walk over all fields, and what it makes of the whole.
pub fn expand(names: &Names<'_>) -> TokenStream {
    let fields = names.fields.iter().enumerate();
    let fields = fields.map(|(index, field)| at_field(names, index, field));
    let pieces = pieces(names);
    let whole = whole(names);
    quote!(#(#fields)* #pieces #whole)
}

/// ```text
/// impl<__C: Value<Of = BlockConfig>, __I: Carry> At<1, __C, __I> for Block {
///     const OUT: &'static Shapes = &after::<Relu, Base<Relu>, Output<Self, 0, __C, __I>>("act");
/// }
/// ```
///
/// and where something is added,
///
/// ```text
/// &leaving(plus::<Output<Self, 0, __C, __I>>(before::<...>(), Sum::Residual), "act")
/// ```
fn at_field(names: &Names<'_>, index: usize, field: &Field<'_>) -> TokenStream {
    let place = field.ty.span();
    let private = names.private_at(place);
    let (generics, _, clause) = names.walk_generics.split_for_impl();
    let (ty, name, this) = (field.ty, &field.name, names.this());
    let value = names.value(index);
    let input = names.carrier_into(index);
    let residual = field.attributes.residual.iter();
    let residual = residual.map(|_| (input.clone(), quote_spanned!(place=> Residual)));
    let added = field.attributes.add.iter().flat_map(|(_, sources)| sources);
    let added = added.map(|source| {
        let carrier = names.carrier(source, place);
        (carrier, quote_spanned!(place=> Added))
    });
    let mut sums = residual.chain(added).peekable();
    let out = if sums.peek().is_none() {
        quote_spanned!(place=> #private::after::<#ty, #value, #input>(#name))
    } else {
        let start = quote_spanned!(place=> #private::before::<#ty, #value, #input>());
        let out = sums.fold(start, |out, (carrier, sum)| {
            quote_spanned!(place=> #private::plus::<#carrier>(#out, #private::Sum::#sum))
        });
        quote_spanned!(place=> #private::leaving(#out, #name))
    };
    quote_spanned! {place=>
        impl #generics #private::At<#index, __C, __I> for #this #clause {
            const OUT: &'static #private::Shapes = &#out;
        }
    }
}

/// ```text
/// impl<__C: Value<Of = BlockConfig>, __I: Carry> Pieces<__C, __I> for Block {
///     const ENTRY: &'static Entry = &Entry::new(__C::MISSING, __I::STANDALONE, __I::SHAPES, &[...]);
///     const OWN: &'static Shapes = &Self::ENTRY.leave(<Output<Self, 3, __C, __I> as Carry>::SHAPES, &[...]);
///     const NAMES: &'static [&'static str] = &[];
/// }
/// ```
fn pieces(names: &Names<'_>) -> TokenStream {
    let private = &names.private;
    let (generics, _, clause) = names.walk_generics.split_for_impl();
    let this = names.this();
    let scope = Scope::new(names.model, Reading::Values);
    let (unpack, inputs, outputs) = match names.specs_read_config() {
        true => (
            names.unpack(&quote!(<__C as #private::Value>::VALUE)),
            names.input_specs(&scope),
            names.output_specs(&scope),
        ),
        false => (
            TokenStream::new(),
            quote!(<Self as #private::Model>::INPUTS),
            quote!(<Self as #private::Model>::OUTPUTS),
        ),
    };
    let place = names.model.original.ident.span();
    let sources = names.outputs().into_iter().map(|(_, source)| match source {
        Some(source) => names.carrier(&source, place),
        None => {
            let last = names.fields.len() - 1;
            quote!(#private::Output<Self, #last, __C, __I>)
        }
    });
    let sources: Vec<TokenStream> = sources.collect();
    let out = names.joined(sources.into_iter(), place);
    let picks = &names.picks;
    quote! {
        impl #generics #private::Pieces<__C, __I> for #this #clause {
            const ENTRY: &'static #private::Entry = {
                #unpack
                &#private::Entry::new(
                    <__C as #private::Value>::MISSING,
                    <__I as #private::Carry>::STANDALONE,
                    <__I as #private::Carry>::SHAPES,
                    #inputs,
                )
            };
            const OWN: &'static #private::Shapes = {
                #unpack
                &<Self as #private::Pieces<__C, __I>>::ENTRY
                    .leave(<#out as #private::Carry>::SHAPES, #outputs)
            };
            const NAMES: &'static [&'static str] = &[#(#picks),*];
        }
    }
}

/// ```text
/// impl<__C: Value<Of = BlockConfig>, __I: Carry> Walk<__C, __I> for Block {
///     const OUT: &'static Shapes = &whole(
///         Self::ENTRY,
///         // In order, so that each field finds the one before it done.
///         &[<Self as At<0, __C, __I>>::OUT, <Self as At<1, __C, __I>>::OUT],
///         Self::OWN,
///     );
/// }
/// ```
fn whole(names: &Names<'_>) -> TokenStream {
    let private = &names.private;
    let (generics, _, clause) = names.walk_generics.split_for_impl();
    let this = names.this();
    let fields = 0..names.fields.len();
    quote! {
        impl #generics #private::Walk<__C, __I> for #this #clause {
            const OUT: &'static #private::Shapes = &#private::whole(
                <Self as #private::Pieces<__C, __I>>::ENTRY,
                &[#(<Self as #private::At<#fields, __C, __I>>::OUT),*],
                <Self as #private::Pieces<__C, __I>>::OWN,
            );
        }
    }
}

/// Whether the model's shapes can be checked where it stands: all its settings are known.
fn is_checked_here(names: &Names<'_>) -> bool {
    match &names.model.attributes.config {
        Config::None => true,
        Config::Names(list) => list.iter().all(|config| config.default.is_some()),
        Config::Of(..) => false,
    }
}

/// One report for every field, all tokens of which stand at the field:
///
/// ```text
/// const _: () = report::<Block, 0>();
/// ```
pub fn reports(names: &Names<'_>) -> TokenStream {
    if names.is_generic() || !is_checked_here(names) {
        return TokenStream::new();
    }
    let reports = report_calls(names);
    let reports = reports
        .into_iter()
        .map(|(place, call)| quote_spanned!(place=> const _: () = #call;));
    reports.collect()
}

/// The reports of a generic model wait until it is used with concrete parameters:
///
/// ```text
/// impl<const W: usize> Checked for Block<W> { const CHECK: () = { report::<Self, 0>(); report::<Self, 1>(); }; }
/// ```
pub fn checked(names: &Names<'_>) -> TokenStream {
    if !names.is_generic() {
        return TokenStream::new();
    }
    let private = &names.private;
    let (generics, _, clause) = names.model.original.generics.split_for_impl();
    let this = names.this();
    let reports = match is_checked_here(names) {
        true => report_calls(names),
        false => Vec::new(),
    };
    let reports = reports.into_iter().map(|(_, call)| call);
    quote! {
        impl #generics #private::Checked for #this #clause {
            const CHECK: () = { #(#reports;)* };
        }
    }
}

/// The calls that report, and where.
fn report_calls(names: &Names<'_>) -> Vec<(Span, TokenStream)> {
    let this = names.this();
    let fields = names.fields.iter().enumerate().map(|(index, field)| {
        let place = field.place;
        let private = names.private_at(place);
        let this = at(place, this.clone());
        (
            place,
            quote_spanned!(place=> #private::report::<#this, #index>()),
        )
    });
    let mut calls: Vec<(Span, TokenStream)> = fields.collect();
    if let Outputs::Single(word, _) | Outputs::Named(word, _) = &names.model.attributes.outputs {
        let place = word.span();
        let private = names.private_at(place);
        let this = at(place, this);
        let name = names.model.original.ident.to_string();
        let call = quote_spanned!(place=> #private::report_output::<#this>(#name));
        calls.push((place, call));
    }
    calls
}
