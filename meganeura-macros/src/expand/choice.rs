//! A model that is one of several layers: an enum.

use super::names::Names;
use crate::ast::Variant;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Ident;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

/// ```text
/// pub enum ActivationConfig { Relu(ConfigOf<Relu>), Wide(ConfigOf<Linear>) }
/// impl Activation {
///     pub const fn relu(layer: ConfigOf<Relu>) -> ActivationConfig { ActivationConfig::Relu(layer) }
///     pub const fn wide(layer: ConfigOf<Linear>) -> ActivationConfig { ActivationConfig::Wide(layer) }
/// }
/// ```
///
/// and a [`Layer`] that does what the chosen one does. The first variant is the default.
pub fn expand(names: &Names<'_>, variants: &[Variant<'_>]) -> TokenStream {
    let config = configuration(names, variants);
    let layer = layer(names, variants);
    let walk = walk(names, variants);
    quote!(#config #layer #walk)
}

fn configuration(names: &Names<'_>, variants: &[Variant<'_>]) -> TokenStream {
    let Names {
        private, config, ..
    } = names;
    let this = names.this();
    let original = names.model.original;
    let (generics, _, clause) = original.generics.split_for_impl();
    let visibility = &original.vis;
    let config_name = &names.config_name;
    let choices = variants
        .iter()
        .map(|Variant { name, ty }| quote_spanned!(ty.span()=> #name(#private::ConfigOf<#ty>)));
    let makers = variants.iter().map(|Variant { name, ty }| {
        let function = function_name(name);
        let doc = format!(
            "Chooses [`{}::{name}`] with this configuration.",
            original.ident
        );
        quote! {
            #[doc = #doc]
            #visibility const fn #function(layer: #private::ConfigOf<#ty>) -> #config {
                #config_name::#name(layer)
            }
        }
    });
    let Variant { name: first, ty } = &variants[0];
    let name = config_name;
    quote! {
        pub enum #name #generics #clause { #(#choices),* }
        impl #generics ::core::clone::Clone for #config #clause {
            fn clone(&self) -> Self { *self }
        }
        impl #generics ::core::marker::Copy for #config #clause {}
        impl #generics #private::Settings for #config #clause {
            const BASE: Self = #name::#first(<#private::ConfigOf<#ty> as #private::Settings>::BASE);
            const REQUIRED: &'static [&'static str] =
                <#private::ConfigOf<#ty> as #private::Settings>::REQUIRED;
        }
        impl #generics #this #clause { #(#makers)* }
    }
}

fn layer(names: &Names<'_>, variants: &[Variant<'_>]) -> TokenStream {
    let Names {
        private,
        config,
        config_name: name,
        ..
    } = names;
    let this = names.this();
    let (generics, _, clause) = names.model.original.generics.split_for_impl();
    let variant: Vec<_> = variants.iter().map(|variant| variant.name).collect();
    let ty: Vec<_> = variants.iter().map(|variant| variant.ty).collect();
    quote! {
        impl #generics #private::Layer for #this #clause {
            type Config = #config;
            type Rule<__C: #private::Value<Of = #config>, __I: #private::Carry> =
                #private::Rule<Self, __C, __I>;

            fn from_config(__config: #config) -> Self {
                match __config {
                    #(#name::#variant(__layer) =>
                        Self::#variant(<#ty as #private::Part>::from_config(__layer)),)*
                }
            }

            fn config(&self) -> #private::Option<#config> {
                match self {
                    #(Self::#variant(__layer) =>
                        <#ty as #private::Part>::config(__layer).map(#name::#variant),)*
                }
            }

            fn shape(&self, __inputs: &#private::Shapes) -> #private::Shapes {
                match self {
                    #(Self::#variant(__layer) =>
                        #private::Layer::shape(<#ty as #private::Part>::as_dyn(__layer), __inputs),)*
                }
            }

            fn output_names(&self) -> &'static [&'static str] {
                match self {
                    #(Self::#variant(__layer) =>
                        #private::Layer::output_names(<#ty as #private::Part>::as_dyn(__layer)),)*
                }
            }

            fn forward<'__g>(
                &self,
                __graph: &'__g #private::Graph,
                __inputs: &[#private::Tensor<'__g>],
            ) -> #private::Vec<#private::Tensor<'__g>> {
                match self {
                    #(Self::#variant(__layer) =>
                        #private::Layer::forward(<#ty as #private::Part>::as_dyn(__layer), __graph, __inputs),)*
                }
            }
        }
    }
}

/// The configuration of each layer for when it is chosen, and the rule of the chosen one.
fn walk(names: &Names<'_>, variants: &[Variant<'_>]) -> TokenStream {
    let Names {
        private,
        config_name,
        ..
    } = names;
    let this = names.this();
    let (set_generics, _, clause) = names.set_generics.split_for_impl();
    let (walk_generics, _, _) = names.walk_generics.split_for_impl();
    let sets = variants
        .iter()
        .enumerate()
        .map(|(index, Variant { name, ty })| {
            quote_spanned! {ty.span()=>
                impl #set_generics #private::Set<#index, __C> for #this #clause {
                    type Of = #private::ConfigOf<#ty>;
                    const SET: #private::Setting<#private::ConfigOf<#ty>> =
                        match <__C as #private::Value>::VALUE {
                            #config_name::#name(__layer) => #private::Setting {
                                value: __layer,
                                missing: <__C as #private::Value>::MISSING,
                            },
                            _ => #private::Setting {
                                value: <#private::ConfigOf<#ty> as #private::Settings>::BASE,
                                missing: "",
                            },
                        };
                }
            }
        });
    let rules = variants
        .iter()
        .enumerate()
        .map(|(index, Variant { name, ty })| {
            quote_spanned! {ty.span()=>
                #config_name::#name(_) => <
                    <#ty as #private::Part>::Rule<#private::Field<Self, #index, __C>, __I>
                    as #private::Carry
                >::SHAPES
            }
        });
    quote! {
        #(#sets)*
        impl #walk_generics #private::Walk<__C, __I> for #this #clause {
            const OUT: &'static #private::Shapes = match <__C as #private::Value>::VALUE {
                #(#rules,)*
            };
        }
    }
}

/// The name of the function that chooses a variant.
fn function_name(variant: &Ident) -> Ident {
    let snake = snake_case(&variant.unraw().to_string());
    let place = variant.span();
    match snake.as_str() {
        // These cannot be names, not even raw ones.
        "self" | "super" | "crate" => Ident::new(&format!("{snake}_"), place),
        _ if syn::parse_str::<Ident>(&snake).is_err() => Ident::new_raw(&snake, place),
        _ => Ident::new(&snake, place),
    }
}

/// `LeakyRelu` → `leaky_relu`
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_uppercase() && index > 0 && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
