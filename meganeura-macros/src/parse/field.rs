//! The words and settings of `#[layer(...)]`.

use super::{arguments, expression, list, spec};
use crate::ast::{LayerAttributes, Setting, Source};
use crate::context::Context;
use crate::nearest::nearest;
use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, Token, parenthesized, token};

/// The words and how each is written.
const WORDS: [(&str, &str); 11] = [
    ("from", "from(x)"),
    ("residual", "residual"),
    ("add", "add(x)"),
    ("repeat", "repeat(3)"),
    ("tie", "tie(field)"),
    ("when", "when(condition)"),
    ("rename", "rename(\"name\")"),
    ("init", "init(KaimingNormal)"),
    ("freeze", "freeze"),
    ("recompute", "recompute"),
    ("skip", "skip"),
];

/// Reads all attributes of a field.
pub fn attributes(context: &Context, attributes: &[Attribute]) -> LayerAttributes {
    let mut read = LayerAttributes::default();
    for attribute in attributes {
        if attribute.path().is_ident("layer") {
            if let Some(tokens) = arguments(context, attribute, "out = 128") {
                list::read(context, tokens, |input| {
                    let done = item(context, input, &mut read);
                    if done.is_err() {
                        read.broken.set(true);
                    }
                    done
                });
            }
        } else if attribute.path().is_ident("model") {
            let message = "`#[model(...)]` stands on the struct; a field takes `#[layer(...)]`";
            context.error(attribute.path().span(), message);
            read.broken.set(true);
        }
    }
    read
}

fn item(context: &Context, input: ParseStream, into: &mut LayerAttributes) -> syn::Result<()> {
    if input.peek(Token![..]) {
        return base(context, input, into);
    }
    if !input.peek(Ident::peek_any) {
        return Err(syn::Error::new(
            input.span(),
            "expected a setting like `out = 128` or a word like `residual`",
        ));
    }
    let name = input.call(Ident::parse_any)?;
    if input.peek(Token![=]) && !input.peek(Token![==]) {
        return setting(context, name, input, into);
    }
    word(context, name, input, into)
}

/// `..base`
fn base(context: &Context, input: ParseStream, into: &mut LayerAttributes) -> syn::Result<()> {
    let dots: Token![..] = input.parse()?;
    if input.is_empty() || input.peek(Token![,]) {
        let message = "`..` needs the configuration to start from: write `..config`";
        return Err(syn::Error::new(dots.span(), message));
    }
    if into.base.is_some() {
        context.error(
            dots.span(),
            "there is already a configuration to start from",
        );
    }
    into.base = Some(expression::parse(input)?);
    Ok(())
}

/// `out = 128`
fn setting(
    context: &Context,
    name: Ident,
    input: ParseStream,
    into: &mut LayerAttributes,
) -> syn::Result<()> {
    input.parse::<Token![=]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        let message = format!("`{name}` needs a value: write `{name} = ...`");
        return Err(syn::Error::new(name.span(), message));
    }
    let value = expression::parse(input)?;
    if into.settings.iter().any(|setting| setting.name == name) {
        context.error(name.span(), format!("`{name}` is set twice"));
        return Ok(());
    }
    into.settings.push(Setting { name, value });
    Ok(())
}

/// `residual`, `from(x)`
fn word(
    context: &Context,
    word: Ident,
    input: ParseStream,
    into: &mut LayerAttributes,
) -> syn::Result<()> {
    let text = word.to_string();
    let Some((_, example)) = WORDS.iter().find(|(known, _)| *known == text) else {
        return Err(unknown(&word, &text, input.peek(token::Paren)));
    };
    let takes_arguments = example.contains('(');
    if takes_arguments != input.peek(token::Paren) {
        let message = match takes_arguments {
            true => format!("`{text}` needs to know what: write `{example}`"),
            false => format!("`{text}` takes nothing: write just `{text}`"),
        };
        if !takes_arguments {
            input.parse::<proc_macro2::TokenTree>()?;
        }
        return Err(syn::Error::new(word.span(), message));
    }
    let mut twice = Once(context, &word);
    match text.as_str() {
        "residual" => twice.set(&mut into.residual, word.clone()),
        "freeze" => twice.set(&mut into.freeze, word.clone()),
        "recompute" => twice.set(&mut into.recompute, word.clone()),
        "skip" => twice.set(&mut into.skip, word.clone()),
        "from" => {
            let sources = sources(context, &word, input)?;
            twice.set(&mut into.from, (word.clone(), sources));
        }
        "add" => {
            let sources = sources(context, &word, input)?;
            twice.set(&mut into.add, (word.clone(), sources));
        }
        "repeat" => {
            let count = argument(&word, input, example, expression::parse)?;
            twice.set(&mut into.repeat, (word.clone(), count));
        }
        "when" => {
            let condition = argument(&word, input, example, expression::parse)?;
            twice.set(&mut into.when, (word.clone(), condition));
        }
        "init" => {
            let init = argument(&word, input, example, expression::parse)?;
            twice.set(&mut into.init, (word.clone(), init));
        }
        "tie" => {
            let field = argument(&word, input, example, |input| input.parse())?;
            twice.set(&mut into.tie, (word.clone(), field));
        }
        _ => {
            let name = argument(&word, input, example, |input| {
                let message = "`rename` takes a path in quotes: write `rename(\"name\")`";
                input
                    .parse()
                    .map_err(|error: syn::Error| syn::Error::new(error.span(), message))
            })?;
            twice.set(&mut into.rename, (word.clone(), name));
        }
    }
    Ok(())
}

/// Keeps the first of what is said twice.
struct Once<'a>(&'a Context, &'a Ident);

impl Once<'_> {
    fn set<T>(&mut self, slot: &mut Option<T>, value: T) {
        if slot.is_some() {
            self.0
                .error(self.1.span(), format!("`{}` is given twice", self.1));
            return;
        }
        *slot = Some(value);
    }
}

/// The one argument of a word.
fn argument<T>(
    word: &Ident,
    input: ParseStream,
    example: &str,
    parse: impl Fn(ParseStream) -> syn::Result<T>,
) -> syn::Result<T> {
    let content;
    parenthesized!(content in input);
    if content.is_empty() {
        let message = format!("`{word}` needs to know what: write `{example}`");
        return Err(syn::Error::new(word.span(), message));
    }
    let value = parse(&content).inspect_err(|_| {
        // What is left would be reported once more.
        let _ = content.parse::<TokenStream>();
    })?;
    if !content.is_empty() {
        let error = syn::Error::new(
            content.span(),
            format!("`{word}` takes one thing: write `{example}`"),
        );
        content.parse::<TokenStream>()?;
        return Err(error);
    }
    Ok(value)
}

/// `from(a, b)`
fn sources(context: &Context, word: &Ident, input: ParseStream) -> syn::Result<Vec<Source>> {
    let content;
    parenthesized!(content in input);
    if content.is_empty() {
        let message = format!("`{word}` needs to know what: write `{word}(x)`");
        return Err(syn::Error::new(word.span(), message));
    }
    let mut sources = Vec::new();
    list::items(context, &content, &mut |input| {
        sources.push(spec::source(input)?);
        Ok(())
    });
    Ok(sources)
}

fn unknown(word: &Ident, text: &str, with_arguments: bool) -> syn::Error {
    let known = WORDS.iter().map(|(word, _)| *word);
    let message = match nearest(text, known.clone()) {
        Some(close) => format!("no word `{text}`: did you mean `{close}`?"),
        None if with_arguments => format!(
            "no word `{text}`: there are {}; a setting of the layer is written `{text} = value`",
            known.collect::<Vec<_>>().join(", ")
        ),
        None => format!("`{text}` alone means nothing: a setting is written `{text} = value`"),
    };
    syn::Error::new(word.span(), message)
}
