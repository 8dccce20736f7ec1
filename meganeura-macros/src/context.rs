//! Collecting errors, so that all of them are shown at once.

use proc_macro2::Span;
use std::{cell::RefCell, fmt::Display};

/// The errors found so far.
///
/// Somebody must look at them in the end: dropping a context without [`Context::finish`] panics, since
/// forgotten errors would let wrong models through.
pub struct Context {
    errors: RefCell<Option<Vec<syn::Error>>>,
}

impl Context {
    pub fn new() -> Context {
        Context {
            errors: RefCell::new(Some(Vec::new())),
        }
    }

    /// Remembers an error at a place of the user's code.
    pub fn error(&self, place: Span, message: impl Display) {
        self.add(syn::Error::new(place, message));
    }

    /// Remembers an error of the parser.
    pub fn add(&self, error: syn::Error) {
        if let Some(errors) = self.errors.borrow_mut().as_mut() {
            errors.push(error);
        }
    }

    /// Whether nothing was found so far.
    pub fn is_clean(&self) -> bool {
        self.errors.borrow().as_ref().is_none_or(Vec::is_empty)
    }

    /// All errors, if there are any.
    pub fn finish(self) -> Result<(), Vec<syn::Error>> {
        match self.errors.take() {
            Some(errors) if !errors.is_empty() => Err(errors),
            _ => Ok(()),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let forgotten = self.errors.borrow().is_some();
        assert!(
            !forgotten || std::thread::panicking(),
            "nobody looked at the errors"
        );
    }
}
