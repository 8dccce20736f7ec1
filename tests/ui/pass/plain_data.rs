//! A description is plain data: copied, compared, printed, changed.

use meganeura::prelude::*;

#[derive(Model, Clone, Debug, PartialEq)]
#[model(config(width: usize = 4, depth: usize), input(x: [batch, width]))]
struct Net {
    #[layer(out = width)]
    first: (Linear, Gelu),
    #[layer(repeat(depth), out = width)]
    more: Vec<PreNorm<Linear>>,
}

fn main() {
    let net = Net::new(2);
    assert_eq!(net, Net::with(2, |_| ()));
    let mut other = Net::with(2, |config| config.width = 5);
    assert_eq!(other.first.0.out, 5);
    assert_ne!(net, other);
    other.first.0.out = 4;
    other.more = net.more.clone();
    assert_eq!(net, other);
    assert!(format!("{net:?}").contains("Linear { out: 4, bias: true }"));
    let config = net.config().expect("all of it is in the fields");
    assert_eq!((config.width, config.depth), (4, 2));
    assert_eq!(net.inputs()[0].dims.to_string(), "[batch, 4]");
}
