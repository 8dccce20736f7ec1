//! What is said of tensors: sources, dims, dtypes.

use super::{expression, list};
use crate::ast::{Input, NamedOutput, Pick, Source, Spec};
use crate::context::Context;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Expr, Ident, LitInt, Token, bracketed, token};

/// `x`, `translate.memory`, `halves.1`
pub fn source(input: ParseStream) -> syn::Result<Source> {
    let name = name(input, "the name of an input or of an earlier field")?;
    let pick = if input.parse::<Option<Token![.]>>()?.is_some() {
        Some(if input.peek(LitInt) {
            let index: LitInt = input.parse()?;
            Pick::At(index.base10_parse()?)
        } else {
            Pick::Named(self::name(input, "the name or the number of an output")?)
        })
    } else {
        None
    };
    Ok(Source { name, pick })
}

/// `x: [batch, 64] as u32`
pub fn input(context: &Context, input: ParseStream) -> syn::Result<Input> {
    let name = name(input, "the name of an input")?;
    let spec = spec_after_colon(context, input)?;
    Ok(Input { name, spec })
}

/// `logits = scores: [batch, 10] as f32`
pub fn named_output(context: &Context, input: ParseStream) -> syn::Result<NamedOutput> {
    let name = name(input, "the name of an output")?;
    let source = match input.parse::<Option<Token![=]>>()? {
        Some(_) => source(input)?,
        None => Source {
            name: name.clone(),
            pick: None,
        },
    };
    let spec = spec_after_colon(context, input)?;
    Ok(NamedOutput { name, source, spec })
}

fn spec_after_colon(context: &Context, input: ParseStream) -> syn::Result<Spec> {
    if input.peek(token::Bracket) {
        return Err(syn::Error::new(
            input.span(),
            "expected `:` before the shape",
        ));
    }
    let dims = match input.parse::<Option<Token![:]>>()? {
        Some(_) => Some(dims(context, input)?),
        None => None,
    };
    let dtype = dtype(input)?;
    Ok(Spec { dims, dtype })
}

/// `[batch, 64] as u32`
pub fn spec(context: &Context, input: ParseStream) -> syn::Result<Spec> {
    Ok(Spec {
        dims: Some(dims(context, input)?),
        dtype: dtype(input)?,
    })
}

fn dims(context: &Context, input: ParseStream) -> syn::Result<Vec<Expr>> {
    if !input.peek(token::Bracket) {
        return Err(syn::Error::new(
            input.span(),
            "expected a shape, as in `[batch, 64]`",
        ));
    }
    let content;
    bracketed!(content in input);
    let mut dims = Vec::new();
    list::items(context, &content, &mut |input| {
        dims.push(expression::parse(input)?);
        Ok(())
    });
    Ok(dims)
}

fn dtype(input: ParseStream) -> syn::Result<Option<Ident>> {
    if input.parse::<Option<Token![as]>>()?.is_none() {
        return Ok(None);
    }
    name(input, "a dtype: `f32`, `u32` or `bool`").map(Some)
}

fn name(input: ParseStream, what: &str) -> syn::Result<Ident> {
    if !input.peek(Ident::peek_any) {
        return Err(syn::Error::new(input.span(), format!("expected {what}")));
    }
    input.parse()
}
