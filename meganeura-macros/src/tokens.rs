//! Small helpers around tokens and types.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Expr, GenericArgument, Ident, Path, PathArguments, Type};

/// The path of the module that generated code lives off, with all its tokens at `place`.
pub fn private(krate: Option<&Path>, place: Span) -> TokenStream {
    match krate {
        Some(path) => {
            let path = at(place, quote::quote!(#path));
            quote_spanned!(place=> #path::__private)
        }
        None => quote_spanned!(place=> ::meganeura::__private),
    }
}

/// The same tokens, all of them standing at `place`.
pub fn at(place: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|mut tree| {
        if let TokenTree::Group(group) = &tree {
            let inner = at(place, group.stream());
            tree = proc_macro2::Group::new(group.delimiter(), inner).into();
        }
        tree.set_span(place);
        tree
    });
    moved.collect()
}

/// A type without the invisible groups that `macro_rules` puts around it.
pub fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        other => other,
    }
}

/// The last name of a type's path: `Vec` of `std::vec::Vec<Linear>`.
pub fn last_name(ty: &Type) -> Option<&Ident> {
    match plain(ty) {
        Type::Path(path) if path.qself.is_none() => {
            path.path.segments.last().map(|segment| &segment.ident)
        }
        _ => None,
    }
}

/// A type as one writes it.
pub fn compact(ty: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    text.replace(' ', "").replace(',', ", ")
}

/// The one type argument of a type: `Linear` of `Vec<Linear>`.
pub fn argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = plain(ty) else {
        return None;
    };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(ty) if arguments.args.len() == 1 => Some(ty),
        _ => None,
    }
}

/// The names that an expression reads: its one-word paths.
pub fn names_in(expression: &Expr) -> Vec<&Ident> {
    struct Names<'e>(Vec<&'e Ident>);
    impl<'e> Visit<'e> for Names<'e> {
        fn visit_expr_path(&mut self, path: &'e syn::ExprPath) {
            if path.qself.is_none()
                && let Some(name) = path.path.get_ident()
            {
                self.0.push(name);
            }
            visit::visit_expr_path(self, path);
        }
        fn visit_expr_call(&mut self, call: &'e syn::ExprCall) {
            // What is called is a function, not a value.
            if !matches!(&*call.func, Expr::Path(_)) {
                self.visit_expr(&call.func);
            }
            call.args
                .iter()
                .for_each(|argument| self.visit_expr(argument));
        }
    }
    let mut names = Names(Vec::new());
    names.visit_expr(expression);
    names.0
}

/// Whether any of `names` occurs in `tokens`, in macros too.
pub fn mentions(tokens: &TokenStream, names: &HashSet<String>) -> bool {
    !names.is_empty()
        && tokens.clone().into_iter().any(|tree| match tree {
            TokenTree::Ident(name) => names.contains(&name.to_string()),
            TokenTree::Group(group) => mentions(&group.stream(), names),
            TokenTree::Punct(_) => false,
            // A format string may name a value.
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                text.contains('{') && names.iter().any(|name| text.contains(name.as_str()))
            }
        })
}
