//! Models across modules, with their own visibilities.

mod parts {
    use meganeura::prelude::*;

    /// A public part.
    #[derive(Model)]
    #[model(config(out: usize), input(x: [batch, width]), output = [batch, out])]
    pub struct Head {
        #[layer(out = out)]
        pub(crate) linear: Linear,
    }

    pub mod inner {
        #[derive(meganeura::Model)]
        #[model(input(x))]
        pub(in crate::parts) struct Hidden {
            pub(super) relu: meganeura::layers::Relu,
        }

        impl Hidden {
            pub fn through() -> Self {
                Self::new()
            }
        }
    }

    pub fn hidden() -> bool {
        let hidden = inner::Hidden::through();
        matches!(hidden.relu, Relu)
    }
}

use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]), output = [batch, 3])]
struct Net {
    #[layer(out = 3)]
    head: parts::Head,
}

fn main() {
    assert!(parts::hidden());
    assert_eq!(Net::new().head.linear.out, 3);
    assert_eq!(parts::Head::new(5).linear.out, 5);
}
