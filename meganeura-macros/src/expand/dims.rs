//! Shapes as code.

use crate::dims::Scope;
use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{BinOp, Expr};

/// The `Dim` of an expression; what cannot be said exactly is unknown.
///
/// ```text
/// 2 * time - 1   →   Dim::of(2).times(Dim::free("time")).less(Dim::of(1))
/// ```
pub fn dim(private: &TokenStream, scope: &Scope, expression: &Expr) -> TokenStream {
    let place = expression.span();
    if scope.open_in(expression).is_empty() {
        return quote_spanned!(place=> #private::Size { is: #expression }.dim());
    }
    match expression {
        Expr::Path(path) => match path.path.get_ident() {
            Some(name) if scope.is_local(name) => quote_spanned!(place=> #name),
            Some(name) => {
                let name = name.unraw().to_string();
                quote_spanned!(place=> #private::Dim::free(#name))
            }
            None => quote_spanned!(place=> #private::Dim::UNKNOWN),
        },
        Expr::Paren(inner) => dim(private, scope, &inner.expr),
        Expr::Group(inner) => dim(private, scope, &inner.expr),
        Expr::Binary(binary) => {
            let left = dim(private, scope, &binary.left);
            let right = dim(private, scope, &binary.right);
            match binary.op {
                BinOp::Add(_) => quote_spanned!(place=> #left.plus(#right)),
                BinOp::Sub(_) => quote_spanned!(place=> #left.less(#right)),
                BinOp::Mul(_) => quote_spanned!(place=> #left.times(#right)),
                BinOp::Div(_) => quote_spanned!(place=> #left.divided(#right)),
                _ => quote_spanned!(place=> #private::Dim::UNKNOWN),
            }
        }
        _ => quote_spanned!(place=> #private::Dim::UNKNOWN),
    }
}
