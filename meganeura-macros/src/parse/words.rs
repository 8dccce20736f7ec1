//! The words of `#[model(...)]`.

use super::{expression, list, spec};
use crate::ast::{Config, ConfigName, ModelAttributes, Outputs};
use crate::context::Context;
use crate::nearest::nearest;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Ident, Path, Token, parenthesized, token};

const WORDS: [(&str, &str); 4] = [
    ("input", "input(x: [batch, 64])"),
    ("output", "output = [batch, 10]"),
    ("config", "config(width: usize = 64)"),
    ("crate", "crate = ::meganeura"),
];

/// Reads what is in the parentheses of `#[model(...)]`.
pub fn read(context: &Context, tokens: TokenStream, attributes: &mut ModelAttributes) {
    list::read(context, tokens, |input| word(context, input, attributes));
}

fn word(context: &Context, input: ParseStream, into: &mut ModelAttributes) -> syn::Result<()> {
    if !input.peek(Ident::peek_any) {
        let known: Vec<String> = WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
        return Err(syn::Error::new(
            input.span(),
            format!("expected one of {}", known.join(", ")),
        ));
    }
    let word = input.call(Ident::parse_any)?;
    match word.to_string().as_str() {
        "input" => inputs(context, &word, input, into),
        "output" if input.peek(Token![=]) => {
            input.parse::<Token![=]>()?;
            let spec = spec::spec(context, input)?;
            output(context, Outputs::Single(word, spec), into);
            Ok(())
        }
        "output" => {
            let mut named = Vec::new();
            parenthesized_list(context, &word, input, &mut |input| {
                named.push(spec::named_output(context, input)?);
                Ok(())
            })?;
            output(context, Outputs::Named(word, named), into);
            Ok(())
        }
        "config" if input.peek(Token![=]) => {
            input.parse::<Token![=]>()?;
            let ty = input.parse()?;
            config(context, &word.clone(), Config::Of(word, Box::new(ty)), into);
            Ok(())
        }
        "config" => {
            let mut names = Vec::new();
            parenthesized_list(context, &word, input, &mut |input| {
                let new = config_name(input)?;
                if names
                    .iter()
                    .any(|known: &ConfigName| known.name == new.name)
                {
                    let message = format!("`{}` is in `config` twice", new.name);
                    context.error(new.name.span(), message);
                } else {
                    names.push(new);
                }
                Ok(())
            })?;
            config(context, &word, Config::Names(names), into);
            Ok(())
        }
        "crate" => {
            expect_equals(&word, input)?;
            let path = input.call(Path::parse_mod_style);
            let hint = |error: syn::Error| {
                syn::Error::new(
                    error.span(),
                    "`crate` takes a path: write `crate = ::meganeura`",
                )
            };
            into.krate = Some(path.map_err(hint)?);
            Ok(())
        }
        other => Err(unknown(&word, other)),
    }
}

fn inputs(
    context: &Context,
    word: &Ident,
    input: ParseStream,
    into: &mut ModelAttributes,
) -> syn::Result<()> {
    if into.input_word.is_some() {
        let message = "`input` is given twice: list all inputs in one `input(...)`";
        context.error(word.span(), message);
    }
    into.input_word = Some(word.clone());
    let mut inputs = Vec::new();
    parenthesized_list(context, word, input, &mut |input| {
        inputs.push(spec::input(context, input)?);
        Ok(())
    })?;
    into.inputs.extend(inputs);
    Ok(())
}

fn output(context: &Context, outputs: Outputs, into: &mut ModelAttributes) {
    if let (
        Outputs::Single(..) | Outputs::Named(..),
        Outputs::Single(word, _) | Outputs::Named(word, _),
    ) = (&into.outputs, &outputs)
    {
        let message = "`output` is given twice: list several outputs as `output(name, name)`";
        context.error(word.span(), message);
        return;
    }
    into.outputs = outputs;
}

fn config(context: &Context, word: &Ident, config: Config, into: &mut ModelAttributes) {
    match into.config {
        Config::None => into.config = config,
        _ => context.error(
            word.span(),
            "`config` is given twice: list all names in one `config(...)`",
        ),
    }
}

/// `width: usize = 64`
fn config_name(input: ParseStream) -> syn::Result<ConfigName> {
    if !input.peek(Ident::peek_any) {
        return Err(syn::Error::new(
            input.span(),
            "expected a name, as in `width: usize = 64`",
        ));
    }
    let name: Ident = input.parse()?;
    if !input.peek(Token![:]) {
        let message = format!("`{name}` needs a type: write `{name}: usize`");
        return Err(syn::Error::new(name.span(), message));
    }
    input.parse::<Token![:]>()?;
    if input.is_empty() || input.peek(Token![=]) || input.peek(Token![,]) {
        let message = format!("`{name}` needs a type: write `{name}: usize`");
        return Err(syn::Error::new(name.span(), message));
    }
    let ty = input.parse()?;
    let default = match input.parse::<Option<Token![=]>>()? {
        Some(_) => Some(expression::parse(input)?),
        None => None,
    };
    Ok(ConfigName { name, ty, default })
}

fn parenthesized_list(
    context: &Context,
    word: &Ident,
    input: ParseStream,
    item: &mut dyn FnMut(ParseStream) -> syn::Result<()>,
) -> syn::Result<()> {
    if !input.peek(token::Paren) {
        let message = format!(
            "`{word}` needs a list: write `{}`",
            example(&word.to_string())
        );
        return Err(syn::Error::new(word.span(), message));
    }
    let content;
    parenthesized!(content in input);
    list::items(context, &content, item);
    Ok(())
}

fn expect_equals(word: &Ident, input: ParseStream) -> syn::Result<()> {
    if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        return Ok(());
    }
    let message = format!(
        "`{word}` needs a value: write `{}`",
        example(&word.to_string())
    );
    Err(syn::Error::new(word.span(), message))
}

fn example(word: &str) -> &'static str {
    WORDS
        .iter()
        .find(|(known, _)| *known == word)
        .map_or("", |(_, example)| example)
}

fn unknown(word: &Ident, text: &str) -> syn::Error {
    let known = WORDS.iter().map(|(word, _)| *word);
    let hint = if text == "skip" {
        "on a field that holds no layer write `#[layer(skip)]`".to_owned()
    } else {
        match nearest(text, known.clone()) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("there are {}", known.collect::<Vec<_>>().join(", ")),
        }
    };
    let message = format!("`#[model(...)]` knows no `{text}`: {hint}");
    syn::Error::new_spanned(word.to_token_stream(), message)
}
