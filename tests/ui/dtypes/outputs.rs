use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32), output = [batch, time] as u32)]
struct Right {
    same: Flatten,
}

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32), output = [batch, time])]
struct Wrong {
    same: Flatten,
}

fn main() {}
