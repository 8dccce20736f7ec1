use meganeura::prelude::*;

struct Scale {
    by: f32,
}

#[layer]
impl Layer for Scale {
    const BASE: Self = Scale { by: 1.0 };

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x * f64::from(self.by)
    }
}

fn main() {}
