//! Which names in a shape are free, and which have values.

use crate::ast::Model;
use crate::tokens::names_in;
use std::collections::HashSet;
use syn::{Expr, Ident};

/// What the names of `config` are in a shape.
#[derive(Clone, Copy, PartialEq)]
pub enum Reading {
    /// Values: so they are where shapes are checked.
    Values,
    /// They stand for themselves, like free names: so they are where nothing is known of them.
    Names,
    /// Local variables that hold a `Dim`: so they are where some may be known.
    Dims,
}

/// The names that a shape may use.
pub struct Scope {
    config: HashSet<String>,
    generics: HashSet<String>,
    reading: Reading,
}

impl Scope {
    pub fn new(model: &Model<'_>, reading: Reading) -> Scope {
        let config = model.config_names().iter();
        let generics = model.original.generics.const_params();
        Scope {
            config: config.map(|config| config.name.to_string()).collect(),
            generics: generics.map(|generic| generic.ident.to_string()).collect(),
            reading,
        }
    }

    /// Whether `name` is no number here: a lowercase name that stands for no value.
    pub fn is_open(&self, name: &Ident) -> bool {
        let text = name.to_string();
        if self.generics.contains(&text) || text == "self" {
            return false;
        }
        if self.config.contains(&text) {
            return self.reading != Reading::Values;
        }
        let bare = text.trim_start_matches("r#");
        bare.starts_with(|first: char| first.is_lowercase() || first == '_')
    }

    /// Whether `name` is a local variable that holds a `Dim`.
    pub fn is_local(&self, name: &Ident) -> bool {
        self.reading == Reading::Dims && self.config.contains(&name.to_string())
    }

    /// The open names in an expression.
    pub fn open_in<'e>(&self, expression: &'e Expr) -> Vec<&'e Ident> {
        let mut names = names_in(expression);
        names.retain(|name| self.is_open(name));
        names
    }
}
