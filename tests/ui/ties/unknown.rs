use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32))]
struct Net {
    #[layer(tie(later))]
    first: Relu,
    #[layer(tie(embde))]
    second: Relu,
    #[layer(tie(tokens))]
    third: Relu,
    #[layer(tie(fourth))]
    fourth: Relu,
    #[layer(tie(a.b))]
    fifth: Relu,
    later: Relu,
}

fn main() {}
