//! What rustdoc shows of a model: what flows in, its layers, what comes out.

use super::names::Names;
use crate::ast::{Field, Outputs, Spec};
use crate::tokens::{argument, compact};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;

/// A list as documentation:
///
/// ```text
/// - input `pixels`: `[batch, 64]`
/// - layer `hidden`: `(Linear, Relu)` with `out = 128`
/// - output: `[batch, 10]`
/// ```
pub fn expand(names: &Names<'_>) -> TokenStream {
    let inputs = names.model.attributes.inputs.iter().map(|input| {
        let name = input.name.unraw();
        format!("- input `{name}`{}", spec(&input.spec))
    });
    let layers = names.fields.iter().map(|field| layer(field));
    let outputs = match &names.model.attributes.outputs {
        Outputs::Implied => Vec::new(),
        Outputs::Single(_, said) => vec![format!("- output{}", spec(said))],
        Outputs::Named(_, outputs) => outputs
            .iter()
            .map(|output| format!("- output `{}`{}", output.name.unraw(), spec(&output.spec)))
            .collect(),
    };
    let lines: Vec<String> = inputs.chain(layers).chain(outputs).collect();
    let text = lines.join("\n");
    quote!(#[doc = #text])
}

fn spec(spec: &Spec) -> String {
    let Some(dims) = &spec.dims else {
        return String::new();
    };
    let dims: Vec<String> = dims.iter().map(code).collect();
    match &spec.dtype {
        Some(dtype) => format!(": `[{}] as {dtype}`", dims.join(", ")),
        None => format!(": `[{}]`", dims.join(", ")),
    }
}

fn layer(field: &Field<'_>) -> String {
    let attributes = &field.attributes;
    let mut line = format!("- layer `{}`: `{}`", field.name, compact(field.ty));
    let mut said: Vec<String> = Vec::new();
    if let Some((_, count)) = &attributes.repeat {
        let each = argument(field.ty).map_or_else(|| compact(field.ty), compact);
        line = format!(
            "- layers `{}`: `{}` times `{each}`",
            field.name,
            code(count)
        );
    }
    let settings = attributes.settings.iter();
    said.extend(settings.map(|set| format!("`{} = {}`", set.name.unraw(), code(&set.value))));
    if let Some((_, target)) = &attributes.tie {
        said.push(format!("the parameters of `{}`", target.unraw()));
    }
    if !said.is_empty() {
        line = format!("{line} with {}", said.join(", "));
    }
    if attributes.residual.is_some() {
        line += ", residual";
    }
    line
}

/// An expression as one writes it.
fn code(expression: &impl ToTokens) -> String {
    let text = expression.to_token_stream().to_string();
    // The spaces that the compiler puts between all tokens.
    let tight = [
        (" :: ", "::"),
        (" (", "("),
        (" ,", ","),
        (" . ", "."),
        ("( ", "("),
        (" )", ")"),
    ];
    let text = tight
        .iter()
        .fold(text, |text, (wide, tight)| text.replace(wide, tight));
    text.replace('`', "'")
}
