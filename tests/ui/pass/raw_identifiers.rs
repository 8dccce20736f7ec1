//! Keywords as names.

use meganeura::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Power {
    r#type: u32,
}

#[layer]
impl Layer for Power {
    const BASE: Self = Power { r#type: 1 };
    const REQUIRED: &'static [&'static str] = &["type"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        x.same()
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        (1..self.r#type).fold(x, |power, _| power * x)
    }
}

#[derive(Model)]
#[model(config(r#loop: usize = 3), input(r#in: [r#async, r#loop]), output(r#out = r#match: [r#async, 8]))]
struct r#Net {
    #[layer(from(r#in), r#type = 2)]
    r#fn: Power,
    #[layer(from(r#in), out = 8)]
    r#mod: Linear,
    #[layer(from(r#fn), out = 2 * r#loop + 2, add(r#mod))]
    r#match: Linear,
}

fn main() {
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("async", 2), ("loop", 3)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 8]);
    let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
    assert_eq!(names, ["mod.weight", "mod.bias", "match.weight", "match.bias"]);
}
