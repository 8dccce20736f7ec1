//! `#[layer] impl Layer for Scale { ... }`: completing the `impl` of a leaf layer.

use crate::context::Context;
use crate::nearest::nearest;
use crate::tokens::private;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{FnArg, ImplItem, ImplItemConst, ImplItemFn, ItemImpl, Path, Token, Type, parse_quote};

/// What a layer's `impl` block may hold.
const ITEMS: [&str; 5] = ["BASE", "REQUIRED", "shape", "output_names", "forward"];

/// The parts of the user's `impl` block.
#[derive(Default)]
struct Parts {
    base: Option<ImplItemConst>,
    required: Option<ImplItemConst>,
    shape: Option<ImplItemFn>,
    forward: Option<ImplItemFn>,
    others: Vec<ImplItem>,
}

/// Expands the attribute.
pub fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let context = Context::new();
    let krate = krate(&context, arguments);
    let block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(_) => {
            let message = "`#[layer]` stands on `impl Layer for YourType { ... }`";
            context.error(item.span(), message);
            return with_errors(context, &item);
        }
    };
    if !is_layer(&block) {
        let message = "`#[layer]` stands on an `impl Layer for ...`";
        context.error(block.impl_token.span, message);
        return with_errors(context, &item);
    }
    let parts = parts(&context, &block);
    match context.finish() {
        Ok(()) => complete(krate.as_ref(), &block, &parts),
        Err(errors) => errors.iter().map(syn::Error::to_compile_error).collect(),
    }
}

fn with_errors(context: Context, item: &TokenStream) -> TokenStream {
    let errors = context.finish().err().unwrap_or_default();
    let errors = errors.iter().map(syn::Error::to_compile_error);
    // An item that is no `impl` is kept: others may refer to it.
    match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(_) => quote!(#(#errors)*),
        Err(_) => quote!(#(#errors)* #item),
    }
}

/// `#[layer(crate = path)]`
fn krate(context: &Context, arguments: TokenStream) -> Option<Path> {
    if arguments.is_empty() {
        return None;
    }
    let place = arguments.span();
    let parse = |input: syn::parse::ParseStream| {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        input.call(Path::parse_mod_style)
    };
    let path = parse.parse2(arguments);
    if path.is_err() {
        let message = "`#[layer]` on an `impl` takes nothing, or `crate = path`";
        context.error(place, message);
    }
    path.ok()
}

fn is_layer(block: &ItemImpl) -> bool {
    let Some((None, path, _)) = &block.trait_ else {
        return false;
    };
    path.segments
        .last()
        .is_some_and(|segment| segment.ident == "Layer")
}

fn parts(context: &Context, block: &ItemImpl) -> Parts {
    let mut parts = Parts::default();
    for item in &block.items {
        match item {
            ImplItem::Const(item) if item.ident == "BASE" => parts.base = Some(item.clone()),
            ImplItem::Const(item) if item.ident == "REQUIRED" => {
                parts.required = Some(item.clone())
            }
            ImplItem::Fn(item) if item.sig.ident == "shape" => parts.shape = Some(item.clone()),
            ImplItem::Fn(item) if item.sig.ident == "forward" => parts.forward = Some(item.clone()),
            ImplItem::Fn(function) if function.sig.ident == "output_names" => {
                parts.others.push(item.clone())
            }
            other => stranger(context, other),
        }
    }
    if !context.is_clean() {
        return parts;
    }
    let place = block.self_ty.span();
    if parts.base.is_none() {
        let message = "say what the layer is like when nothing is set: `const BASE: Self = ...;`";
        context.error(place, message);
    }
    match &parts.forward {
        Some(forward) => check_forward(context, forward),
        None => {
            let message = "say what the layer does: \
                           `fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> { ... }`";
            context.error(place, message);
        }
    }
    if let Some(shape) = &parts.shape
        && shape.sig.inputs.len() != 2
    {
        let message = "the shape rule is `const fn shape(&self, x: &Shapes) -> Shapes`";
        context.error(shape.sig.ident.span(), message);
    }
    parts
}

fn stranger(context: &Context, item: &ImplItem) {
    let name = match item {
        ImplItem::Const(item) => &item.ident,
        ImplItem::Fn(item) => &item.sig.ident,
        ImplItem::Type(item) => &item.ident,
        other => {
            context.error(other.span(), "this does not belong into a layer");
            return;
        }
    };
    let text = name.to_string();
    let hint = match nearest(&text, ITEMS) {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!(
            "there are {}; put others into an `impl` of their own",
            ITEMS.join(", ")
        ),
    };
    context.error(name.span(), format!("a layer has no `{text}`: {hint}"));
}

fn check_forward(context: &Context, forward: &ImplItemFn) {
    let takes_self = matches!(
        forward.sig.inputs.first(),
        Some(FnArg::Receiver(receiver)) if receiver.reference.is_some() && receiver.mutability.is_none()
    );
    if !takes_self {
        let message = "`forward` takes `&self` first";
        context.error(forward.sig.ident.span(), message);
    }
    if tensors(forward) == Some(0) {
        let message = "`forward` takes a tensor for everything that flows in: \
                       `fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g>`";
        context.error(forward.sig.ident.span(), message);
    }
}

/// How many tensors `forward` takes by name; `None` when it is written as the trait has it, with the
/// graph and a slice.
fn tensors(forward: &ImplItemFn) -> Option<usize> {
    let types = forward.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(&*input.ty),
        FnArg::Receiver(_) => None,
    });
    let types: Vec<&Type> = types.collect();
    match types.first() {
        Some(Type::Reference(_)) => None,
        _ => Some(types.len()),
    }
}

/// Whether an attribute is about the implementation of the trait only.
fn is_diagnostic(attribute: &syn::Attribute) -> bool {
    let first = attribute.path().segments.first();
    first.is_some_and(|segment| segment.ident == "diagnostic")
}

/// The user's functions become inherent ones, and the traits are implemented with them.
fn complete(krate: Option<&Path>, block: &ItemImpl, parts: &Parts) -> TokenStream {
    let private = private(krate, Span::call_site());
    let ty = &block.self_ty;
    let (generics, _, clause) = block.generics.split_for_impl();
    let (own_attributes, attributes): (Vec<_>, Vec<_>) = block
        .attrs
        .iter()
        .partition(|attribute| is_diagnostic(attribute));
    let base = &parts.base;
    let required = &parts.required;
    let others = &parts.others;
    let (own, shape) = shape(&private, parts);
    let (own_forward, forward) = forward(&private, parts);
    let walk = walk(&private, block, parts);
    let path = block.trait_.as_ref().map(|(_, path, _)| path);
    quote! {
        #(#own_attributes)*
        #(#attributes)*
        impl #generics #private::Settings for #ty #clause {
            #base
            #required
        }
        #(#attributes)*
        impl #generics #ty #clause {
            #own
            #own_forward
        }
        #walk
        #(#own_attributes)*
        #(#attributes)*
        impl #generics #path for #ty #clause {
            type Config = #ty;
            type Rule<__C: #private::Value<Of = #ty>, __I: #private::Carry> =
                #private::Rule<#ty, __C, __I>;

            fn from_config(config: #ty) -> Self {
                config
            }

            #shape
            #forward
            #(#others)*
        }
    }
}

/// The rule as an inherent `const fn`, and as a method for when the graph is built.
fn shape(private: &TokenStream, parts: &Parts) -> (TokenStream, TokenStream) {
    let arity = arity(parts);
    let Some(mut own) = parts.shape.clone() else {
        return (TokenStream::new(), TokenStream::new());
    };
    own.sig.constness = Some(Token![const](own.sig.fn_token.span));
    own.sig.ident = syn::Ident::new("__shape", own.sig.ident.span());
    own.attrs.push(quiet());
    let method = quote! {
        fn shape(&self, inputs: &#private::Shapes) -> #private::Shapes {
            match #private::stopped("", #arity, inputs) {
                #private::Option::Some(stopped) => stopped,
                #private::Option::None => self.__shape(inputs),
            }
        }
    };
    (own.to_token_stream(), method)
}

/// `forward` as the trait has it, around one that takes tensors by name.
fn forward(private: &TokenStream, parts: &Parts) -> (TokenStream, TokenStream) {
    let Some(user) = &parts.forward else {
        return (TokenStream::new(), TokenStream::new());
    };
    let Some(count) = tensors(user) else {
        return (TokenStream::new(), user.to_token_stream());
    };
    let mut own = user.clone();
    own.sig.ident = syn::Ident::new("__forward", user.sig.ident.span());
    own.attrs.push(quiet());
    let names: Vec<_> = (0..count)
        .map(|index| quote::format_ident!("__tensor{index}"))
        .collect();
    let place = user.sig.output.span();
    let call = quote_spanned!(place=> #private::Tensors::into_vec(self.__forward(#(#names),*)));
    let method = quote! {
        fn forward<'__g>(
            &self,
            graph: &'__g #private::Graph,
            inputs: &[#private::Tensor<'__g>],
        ) -> #private::Vec<#private::Tensor<'__g>> {
            match *inputs {
                [#(#names),*] => #call,
                _ => #private::wrong_count(graph, #count, inputs.len()),
            }
        }
    };
    (own.to_token_stream(), method)
}

/// The rule for the walk at compile time.
fn walk(private: &TokenStream, block: &ItemImpl, parts: &Parts) -> TokenStream {
    let ty = &block.self_ty;
    let mut generics = block.generics.clone();
    generics
        .params
        .push(parse_quote!(__C: #private::Value<Of = #ty>));
    generics.params.push(parse_quote!(__I: #private::Carry));
    let (generics, _, clause) = generics.split_for_impl();
    let arity = arity(parts);
    let rule = match &parts.shape {
        Some(_) => quote! {
            match #private::stopped(
                <__C as #private::Value>::MISSING,
                #arity,
                <__I as #private::Carry>::SHAPES,
            ) {
                #private::Option::Some(stopped) => stopped,
                #private::Option::None => {
                    let layer = <__C as #private::Value>::VALUE;
                    layer.__shape(<__I as #private::Carry>::SHAPES)
                }
            }
        },
        None => quote!(#private::opaque::<__C, __I>(#arity)),
    };
    quote! {
        impl #generics #private::Walk<__C, __I> for #ty #clause {
            const OUT: &'static #private::Shapes = &#rule;
        }
    }
}

/// The number of values that flow in, or any.
fn arity(parts: &Parts) -> TokenStream {
    match parts.forward.as_ref().and_then(tensors) {
        Some(count) => count.to_token_stream(),
        None => quote!(::core::primitive::usize::MAX),
    }
}

/// What would be fine in a trait is fine in the inherent function it became.
fn quiet() -> syn::Attribute {
    parse_quote! {
        #[allow(
            clippy::unused_self, clippy::trivially_copy_pass_by_ref, clippy::needless_pass_by_value,
            clippy::must_use_candidate, clippy::needless_lifetimes, clippy::return_self_not_must_use,
            clippy::missing_const_for_fn
        )]
    }
}
