//! Types of fields that cannot be right.

use crate::ast::Field;
use crate::context::Context;
use crate::tokens::{argument, compact, last_name, plain};
use proc_macro2::Span;
use syn::Type;
use syn::spanned::Spanned;

/// Types that everybody knows and that are no layers.
const NO_LAYERS: [&str; 26] = [
    "bool",
    "char",
    "str",
    "String",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "PhantomData",
    "HashMap",
    "BTreeMap",
    "HashSet",
    "Arc",
    "Rc",
    "Cell",
    "RefCell",
];

/// Whether a type may be a layer. One that plainly is none is reported; `hint` says what to do about it.
pub fn check_layer(context: &Context, ty: &Type, hint: &str) -> bool {
    let text = match plain(ty) {
        Type::Reference(_) => "a reference".to_owned(),
        Type::Ptr(_) => "a pointer".to_owned(),
        Type::BareFn(_) => "a function".to_owned(),
        Type::Slice(_) => "a slice".to_owned(),
        Type::Tuple(tuple) if tuple.elems.is_empty() => "`()`".to_owned(),
        Type::Tuple(tuple) => {
            // All of them, so that several wrong parts are reported at once.
            let sound = tuple
                .elems
                .iter()
                .map(|part| check_layer(context, part, ""));
            return sound.collect::<Vec<_>>().into_iter().all(|sound| sound);
        }
        Type::Array(array) => return check_layer(context, &array.elem, hint),
        _ => match last_name(ty) {
            Some(name) if name == "Vec" || name == "Option" => match argument(ty) {
                Some(item) => return check_layer(context, item, hint),
                None => return true,
            },
            Some(name) if NO_LAYERS.contains(&name.to_string().as_str()) => {
                format!("`{}`", compact(ty))
            }
            _ => return true,
        },
    };
    context.error(ty.span(), format!("{text} is not a layer{hint}"));
    false
}

/// Checks a field's type, alone and together with its words.
pub fn check_field(context: &Context, field: &Field<'_>) {
    let broken = &field.attributes.broken;
    if !check_layer(context, field.ty, ": mark the field with `#[layer(skip)]`") {
        broken.set(true);
    }
    if broken.get() {
        return;
    }
    if let Some((place, message)) = mismatch(field) {
        broken.set(true);
        context.error(place, message);
    }
}

/// A type and words that do not go together.
fn mismatch(field: &Field<'_>) -> Option<(Span, String)> {
    let (name, attributes) = (&field.name, &field.attributes);
    let is = |wrapper: &str| last_name(field.ty).is_some_and(|name| name == wrapper);
    let text = compact(field.ty);
    match (&attributes.repeat, &attributes.when) {
        (Some((repeat, _)), Some(_)) => {
            let message =
                "`repeat` and `when` do not go together: a `Vec` of no layers does nothing";
            Some((repeat.span(), message.to_owned()))
        }
        (Some((repeat, _)), None) if matches!(plain(field.ty), Type::Array(_)) => {
            let message = "an array already says how many layers there are: take `repeat` away";
            Some((repeat.span(), message.to_owned()))
        }
        (Some(_), None) if !is("Vec") => Some((
            field.ty.span(),
            format!("`repeat` needs a `Vec` of layers: write `Vec<{text}>`"),
        )),
        (None, Some(_)) if !is("Option") => Some((
            field.ty.span(),
            format!("`when` needs an `Option` of a layer: write `Option<{text}>`"),
        )),
        (None, None) if is("Vec") && attributes.base.is_none() => Some((
            field.place,
            format!("`{name}` is a `Vec` of layers: say how many with `#[layer(repeat(n))]`"),
        )),
        (None, None) if is("Option") && attributes.base.is_none() => Some((
            field.place,
            format!("`{name}` is optional: say when it is there with `#[layer(when(condition))]`"),
        )),
        _ => None,
    }
}
