//! Generated code needs nothing in scope, and the crate may have another name.

#![no_implicit_prelude]

extern crate meganeura as mg;
extern crate std;

mod usize {}
mod core {}

#[derive(::mg::Model)]
#[model(crate = ::mg, config(width: ::std::primitive::usize = 4), input(x: [batch, 8]), output = [batch, 3])]
pub struct Net {
    #[layer(out = width)]
    a: ::mg::layers::Linear,
    act: ::mg::layers::Relu,
    #[layer(repeat(3), out = 3)]
    c: ::std::vec::Vec<::mg::layers::Linear>,
    #[layer(when(width > 3))]
    d: ::std::option::Option<::mg::layers::Tanh>,
    choice: Choice,
    own: Own,
}

#[derive(::mg::Model)]
#[model(crate = ::mg)]
pub enum Choice {
    A(::mg::layers::Relu),
    B(::mg::layers::Tanh),
}

#[derive(::std::clone::Clone, ::std::marker::Copy)]
pub struct Own;

#[::mg::layer(crate = ::mg)]
impl ::mg::model::Layer for Own {
    const BASE: Self = Own;

    const fn shape(&self, x: &::mg::walk::Shapes) -> ::mg::walk::Shapes {
        x.same()
    }

    fn forward<'g>(&self, x: ::mg::ir::Tensor<'g>) -> ::mg::ir::Tensor<'g> {
        x
    }
}

::mg::check!(crate = ::mg, Net { width: 5 });

fn main() {
    let graph = ::mg::ir::Graph::new();
    let out = ::mg::model::Model::build(&Net::new(), &graph, &[("batch", 2)]);
    ::std::assert_eq!(out[0].shape().dims(), [2, 3]);
}
