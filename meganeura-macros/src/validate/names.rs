//! Whether the values that fields take exist, and in time.

use crate::ast::{Field, Model, Outputs, Source};
use crate::context::Context;
use crate::nearest::nearest;
use proc_macro2::Span;
use syn::Ident;
use syn::ext::IdentExt;

/// Checks all names of values in a struct.
pub fn check(context: &Context, model: &Model<'_>) {
    let fields: Vec<&Field<'_>> = model.layers().collect();
    let inputs: Vec<String> = model
        .attributes
        .inputs
        .iter()
        .map(|input| input.name.unraw().to_string())
        .collect();
    duplicates(context, model, &fields, &inputs);
    for (index, field) in fields.iter().enumerate() {
        let scope = Scope {
            context,
            inputs: &inputs,
            fields: &fields,
            made: index,
        };
        scope.field(field);
    }
    if let (Some(first), [_, _, ..]) = (fields.first(), inputs.as_slice())
        && first.attributes.from.is_none()
        && !first.attributes.broken.get()
    {
        let message = format!(
            "the model has {} inputs: say which `{}` takes with `#[layer(from({}))]`",
            inputs.len(),
            first.name,
            inputs[0]
        );
        context.error(first.place, message);
    }
    if let Outputs::Named(word, outputs) = &model.attributes.outputs {
        let scope = Scope {
            context,
            inputs: &inputs,
            fields: &fields,
            made: fields.len(),
        };
        if outputs.is_empty() && context.is_clean() {
            let message =
                "say what is put out: write `output(name, ...)` or `output = [batch, 10]`";
            context.error(word.span(), message);
        }
        for (index, output) in outputs.iter().enumerate() {
            if outputs[..index]
                .iter()
                .any(|other| other.name == output.name)
            {
                let message = format!("there are two outputs `{}`", output.name);
                context.error(output.name.span(), message);
            }
            scope.source(&output.source, None);
        }
    }
}

/// What may be named at one place.
struct Scope<'a> {
    context: &'a Context,
    inputs: &'a [String],
    fields: &'a [&'a Field<'a>],
    /// The fields before the place.
    made: usize,
}

impl Scope<'_> {
    fn field(&self, field: &Field<'_>) {
        let attributes = &field.attributes;
        let from = attributes.from.iter().flat_map(|(_, sources)| sources);
        let add = attributes.add.iter().flat_map(|(_, sources)| sources);
        for source in from.chain(add) {
            self.source(source, Some(field));
        }
        if let Some((_, target)) = &attributes.tie {
            let name = target.unraw().to_string();
            if self.inputs.contains(&name) {
                let message =
                    format!("`{name}` is an input and has no parameters: tie to an earlier field");
                self.context.error(target.span(), message);
            } else {
                if field.name == name {
                    return self.error(target, format!("`{name}` cannot be tied to itself"));
                }
                self.value(target, Some(field), &[]);
            }
        }
    }

    fn source(&self, source: &Source, field: Option<&Field<'_>>) {
        self.value(&source.name, field, self.inputs);
        if source.pick.is_some() && self.inputs.contains(&source.name.unraw().to_string()) {
            let message = format!("`{}` is an input, which is one value", source.name);
            self.context.error(source.name.span(), message);
        }
    }

    /// Checks that `name` is one of `inputs` or an earlier field.
    fn value(&self, name: &Ident, field: Option<&Field<'_>>, inputs: &[String]) {
        let text = name.unraw().to_string();
        let earlier = self.fields[..self.made]
            .iter()
            .map(|field| field.name.as_str());
        let known: Vec<&str> = inputs.iter().map(String::as_str).chain(earlier).collect();
        if known.contains(&text.as_str()) {
            return;
        }
        if let Some(field) = field {
            if field.name == text {
                return self.error(
                    name,
                    format!("`{text}` cannot take what it puts out itself"),
                );
            }
            if self.fields.iter().any(|later| later.name == text) {
                let message = format!(
                    "`{text}` comes after `{}`: move it up, fields run in order",
                    field.name
                );
                return self.error(name, message);
            }
        }
        let what = if inputs.is_empty() && !self.inputs.is_empty() {
            "earlier layer"
        } else {
            "value"
        };
        let hint = match nearest(&text, known.iter().copied()) {
            Some(close) => format!("did you mean `{close}`?"),
            None if known.is_empty() => "nothing comes before".to_owned(),
            None => format!("there are {}", known.join(", ")),
        };
        self.error(name, format!("no {what} `{text}`: {hint}"));
    }

    fn error(&self, name: &Ident, message: String) {
        self.context.error(name.span(), message);
    }
}

/// Reports names that are given twice.
fn duplicates(context: &Context, model: &Model<'_>, fields: &[&Field<'_>], inputs: &[String]) {
    for (index, input) in model.attributes.inputs.iter().enumerate() {
        if inputs[..index].contains(&inputs[index]) {
            let message = format!("there are two inputs `{}`", input.name);
            context.error(input.name.span(), message);
        }
        if fields.iter().any(|field| field.name == inputs[index]) {
            let message = format!(
                "`{}` is the name of a field too: give the input another name",
                input.name
            );
            context.error(input.name.span(), message);
        }
    }
    let mut paths: Vec<(String, &str)> = Vec::new();
    for field in fields {
        let (path, place): (String, Span) = match &field.attributes.rename {
            Some((_, name)) if name.value().is_empty() => continue,
            Some((_, name)) => (name.value(), name.span()),
            None => (field.name.clone(), field.place),
        };
        match paths.iter().find(|(known, _)| *known == path) {
            Some((_, other)) => {
                let message = format!("the parameters of `{other}` stand under \"{path}\" already");
                context.error(place, message);
            }
            None => paths.push((path, &field.name)),
        }
    }
}
