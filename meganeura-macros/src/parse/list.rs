//! Comma-separated lists that survive a bad item.

use crate::context::Context;
use proc_macro2::{TokenStream, TokenTree};
use syn::Token;
use syn::parse::{ParseStream, Parser};

/// Reads `tokens` as a list, item by item. A bad item is reported and skipped.
pub fn read(
    context: &Context,
    tokens: TokenStream,
    mut item: impl FnMut(ParseStream) -> syn::Result<()>,
) {
    let parse = |input: ParseStream| {
        items(context, input, &mut item);
        Ok(())
    };
    if let Err(error) = parse.parse2(tokens) {
        context.add(error);
    }
}

/// The same for what is left of a stream.
pub fn items(
    context: &Context,
    input: ParseStream,
    item: &mut dyn FnMut(ParseStream) -> syn::Result<()>,
) {
    while !input.is_empty() {
        match item(input) {
            Err(error) => {
                context.add(error);
                skip_item(input);
            }
            Ok(()) if !input.is_empty() && !input.peek(Token![,]) => {
                context.error(input.span(), "expected `,` before this");
                skip_item(input);
            }
            Ok(()) => {}
        }
        // At the end there is no comma to take.
        let _ = input.parse::<Token![,]>();
    }
}

fn skip_item(input: ParseStream) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}
