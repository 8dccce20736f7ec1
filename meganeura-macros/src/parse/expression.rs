//! Expressions as the user sees them.

use syn::parse::ParseStream;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, token};

/// Reads an expression.
///
/// What `macro_rules` puts in for `$x:expr` stands in invisible groups, which rustc forgets on the way
/// back: `2 * $x` with `1 + 1` would become `2 * 1 + 1`. Parentheses keep what was meant.
pub fn parse(input: ParseStream) -> syn::Result<Expr> {
    let mut expression: Expr = input.parse()?;
    Visible.visit_expr_mut(&mut expression);
    Ok(expression)
}

struct Visible;

impl VisitMut for Visible {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        visit_mut::visit_expr_mut(self, expression);
        if let Expr::Group(group) = expression {
            let inner = (*group.expr).clone();
            *expression = match inner {
                Expr::Path(_) | Expr::Lit(_) | Expr::Paren(_) => inner,
                _ => Expr::Paren(syn::ExprParen {
                    attrs: Vec::new(),
                    paren_token: token::Paren(group.group_token.span),
                    expr: Box::new(inner),
                }),
            };
        }
    }
}
