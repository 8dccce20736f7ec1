//! Both sides of every rule, in double precision, on random and singular tensors.

use egg::{Id, Language};

use super::{Rule, all};
use crate::egraph::encode::term;
use crate::egraph::facts::{Facts, Terms};
use crate::egraph::language::{LeafType, NO_AXIS, Term};
use crate::egraph::normal::{contract, number, raw_product, raw_sum, reduce};
use crate::egraph::verify::verify_terms;
use crate::ir::{Array, Combine, DType, Graph, Tensor, TensorType};

/// Instances of one rule: what they are tried with.
const INSTANCES: usize = 60;

/// Makes terms of random operands.
struct Maker {
    eg: Terms,
    state: u64,
    rows: usize,
    columns: usize,
}

impl Maker {
    fn new(seed: u64) -> Maker {
        let mut maker = Maker {
            eg: Terms::new(Facts::new(Vec::new())),
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            rows: 0,
            columns: 0,
        };
        maker.rows = 2 + maker.below(3);
        maker.columns = 2 + maker.below(3);
        maker
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as usize % bound
    }

    fn leaf_of(&mut self, ty: TensorType, bound: Option<usize>) -> Id {
        let index = self.eg.analysis.leaves.len() as u32;
        let since = None;
        self.eg.analysis.leaves.push(LeafType { ty, bound, since });
        self.eg.add(Term::Leaf(index))
    }

    fn leaf(&mut self, dims: &[usize]) -> Id {
        self.leaf_of(TensorType::f32(dims), None)
    }

    /// Varies along both axes.
    fn full(&mut self) -> Id {
        self.leaf(&[self.rows, self.columns])
    }

    /// Varies along some.
    fn some(&mut self) -> Id {
        match self.below(5) {
            0 => self.leaf(&[self.columns]),
            1 => self.leaf(&[self.rows, 1]),
            2 => self.leaf(&[]),
            _ => self.full(),
        }
    }

    fn coefficient(&mut self) -> f64 {
        [1.0, -1.0, 2.0, 0.5, -3.0, 1.0 / 3.0][self.below(6)]
    }

    fn half(&mut self) -> i16 {
        [2, 2, 4, -2, 1, -1][self.below(6)]
    }

    /// c·x + c·y
    fn combination(&mut self, x: Id, y: Id) -> Id {
        let terms = [(self.coefficient(), x), (self.coefficient(), y)];
        raw_sum(&mut self.eg, terms)
    }

    /// x^h·y^h
    fn powers(&mut self, x: Id, y: Id) -> Id {
        let factors = vec![(self.half(), x), (self.half(), y)];
        raw_product(&mut self.eg, factors)
    }

    fn product(&mut self, x: Id, y: Id) -> Id {
        raw_product(&mut self.eg, vec![(2, x), (2, y)])
    }

    fn sum_along(&mut self, axes: &[u8], x: Id) -> Id {
        let extents = [self.columns, self.rows];
        let span: Vec<(u8, u32)> = axes
            .iter()
            .map(|&axis| (axis, extents[usize::from(axis)] as u32))
            .collect();
        reduce(&mut self.eg, Combine::Sum, &span, x)
    }

    fn turned(&mut self, x: Id) -> Id {
        self.eg.add(Term::Rename([1, 0].into(), [x]))
    }

    /// One op of the graph on classes of these types.
    fn op(
        &mut self,
        types: &[TensorType],
        operands: &[Id],
        build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Tensor<'g>,
    ) -> Id {
        let graph = Graph::new();
        let inputs: Vec<Tensor<'_>> = types
            .iter()
            .enumerate()
            .map(|(index, ty)| graph.input(&index.to_string(), &ty.shape, ty.dtype))
            .collect();
        let result = build(&graph, &inputs);
        assert!(graph.errors().is_empty(), "{:?}", graph.errors());
        let node = graph.nodes()[result.id().index()].clone();
        assert_eq!(node.inputs.len(), operands.len(), "one op at a time");
        term(&mut self.eg, &node.op, operands, types, &node.ty)
    }

    fn scalars(
        &mut self,
        operands: &[Id],
        build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Tensor<'g>,
    ) -> Id {
        let types = vec![TensorType::f32([]); operands.len()];
        self.op(&types, operands, build)
    }

    fn select(&mut self, condition: Id, yes: Id, no: Id) -> Id {
        let number = TensorType::f32([]);
        let types = [
            TensorType::new([], DType::Bool),
            number.clone(),
            number.clone(),
        ];
        self.op(&types, &[condition, yes, no], |_, x| {
            x[0].select(x[1], x[2])
        })
    }

    fn reshape(&mut self, x: Id, from: &[usize], to: &[usize]) -> Id {
        self.op(&[TensorType::f32(from)], &[x], |_, x| x[0].reshape(to))
    }

    /// Some neighbouring columns of a matrix of this size.
    fn slice(&mut self, x: Id, size: [usize; 2], start: usize, count: usize) -> Id {
        let ty = TensorType::f32(size);
        self.op(&[ty], &[x], |_, x| x[0].slice(1, start, count))
    }

    /// A matrix product of fresh leaves, rows × columns.
    fn contraction(&mut self) -> (Id, [Id; 2], u32) {
        let k = 2 + self.below(3);
        let (a, b) = (self.leaf(&[self.rows, k]), self.leaf(&[k, self.columns]));
        (contract(&mut self.eg, k as u32, a, b), [a, b], k as u32)
    }

    /// Whether the index along axis 0 equals the integer of each row.
    fn one_hot(&mut self) -> Id {
        let columns = self.columns;
        let label = TensorType::new([self.rows, 1], DType::U32);
        let label = self.leaf_of(label, Some(columns));
        let index = self.op(&[], &[], |graph, _| graph.index([columns], 0));
        let integer = TensorType::new([], DType::U32);
        let types = [integer.clone(), integer];
        self.op(&types, &[index, label], |_, x| x[0].equal(x[1]))
    }

    /// Values for the leaves.
    fn values(&mut self, fill: Fill) -> Vec<Array> {
        let leaves = self.eg.analysis.leaves.clone();
        let draw = |maker: &mut Maker| {
            let uniform = maker.below(3001) as f64 / 1000.0 - 1.5;
            match fill {
                Fill::Uniform => uniform,
                Fill::Ties => maker.below(5) as f64 - 2.0,
                Fill::Offset => uniform + 20.0,
                Fill::Singular if maker.below(6) == 0 => {
                    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0][maker.below(4)]
                }
                Fill::Singular => uniform,
            }
        };
        let value = |leaf: &LeafType| {
            Array::from_fn(&leaf.ty.shape, |_| match leaf.bound {
                Some(bound) => self.below(bound) as f64,
                None => draw(self),
            })
        };
        leaves.iter().map(value).collect()
    }
}

/// What leaves hold.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Uniform,
    Ties,
    Offset,
    Singular,
}

const FILLS: [Fill; 4] = [Fill::Uniform, Fill::Ties, Fill::Offset, Fill::Singular];

/// A rule's name and what makes a class it has something to say of.
type Instance = (&'static str, fn(&mut Maker) -> Id);

const SUMS_AND_PRODUCTS: &[Instance] = &[
    ("merge sums", |m| {
        let (x, y, z) = (m.full(), m.some(), m.some());
        let inner = m.combination(x, y);
        m.combination(inner, z)
    }),
    ("merge products", |m| {
        let (x, y, z) = (m.full(), m.some(), m.some());
        let factors = vec![(m.half(), x), (m.half(), y)];
        let inner = raw_product(&mut m.eg, factors);
        let factors = vec![(2, inner), (m.half(), z)];
        raw_product(&mut m.eg, factors)
    }),
    ("factor", |m| {
        let (x, y, z) = (m.full(), m.some(), m.some());
        let (first, second) = (m.powers(x, y), m.powers(x, z));
        m.combination(first, second)
    }),
    ("reuse", |m| {
        let [x, y, z, w] = [(); 4].map(|()| m.full());
        let first = raw_product(&mut m.eg, vec![(2, x), (2, y), (2, z)]);
        raw_product(&mut m.eg, vec![(2, x), (2, y), (2, w)]);
        first
    }),
    ("fold coefficient", |m| {
        let (x, y, row) = (m.full(), m.some(), m.leaf(&[m.rows, 1]));
        let scaled = m.product(x, row);
        match m.below(2) {
            0 => raw_sum(&mut m.eg, [(0.3, scaled)]),
            _ => raw_sum(&mut m.eg, [(0.3, scaled), (-2.0, y)]),
        }
    }),
    ("log of exp", |m| {
        let (x, y) = (m.full(), m.some());
        let z = m.scalars(&[x], |_, x| x[0].exp());
        let (y, one) = (m.scalars(&[y], |_, x| x[0].exp()), number(&mut m.eg, 1.0));
        let s = raw_sum(&mut m.eg, [(1.0, y), (1.0, one)]);
        let quotient = raw_product(&mut m.eg, vec![(2, z), (-2, s)]);
        m.scalars(&[quotient], |_, x| x[0].log())
    }),
];

const REDUCTIONS: &[Instance] = &[
    ("reduce linearly", |m| {
        let (x, y) = (m.full(), m.some());
        match m.below(4) {
            0 => {
                let inner = m.combination(x, y);
                m.sum_along(&[0], inner)
            }
            1 => {
                let inner = m.powers(x, y);
                m.sum_along(&[1], inner)
            }
            2 => {
                let inner = m.sum_along(&[1], x);
                m.sum_along(&[0], inner)
            }
            _ => {
                // A centred sum.
                let mean = m.sum_along(&[0], x);
                let less = -1.0 / m.columns as f64;
                let inner = raw_sum(&mut m.eg, [(1.0, x), (less, mean)]);
                m.sum_along(&[0], inner)
            }
        }
    }),
    ("reduce in turn", |m| {
        let (x, row) = (m.full(), m.leaf(&[m.columns]));
        let inner = m.powers(x, row);
        m.sum_along(&[0, 1], inner)
    }),
    ("distribute", |m| {
        let (x, y, z) = (m.full(), m.some(), m.some());
        let inner = m.combination(x, y);
        let factors = vec![(2, inner), (m.half(), z)];
        let class = raw_product(&mut m.eg, factors);
        m.sum_along(&[0], class);
        class
    }),
    ("pick one", |m| {
        let condition = m.one_hot();
        let zero = number(&mut m.eg, 0.0);
        let (row, x) = (m.leaf(&[m.rows, 1]), m.full());
        let picked = match m.below(3) {
            0 => m.select(condition, row, zero),
            1 => m.select(condition, zero, row),
            _ => {
                let value = m.combination(x, row);
                m.select(condition, value, zero)
            }
        };
        m.sum_along(&[0], picked)
    }),
    ("reduce renamed", |m| {
        let x = m.full();
        let turned = m.turned(x);
        let span = [(0, m.rows as u32)].into();
        m.eg.add(Term::Reduce(Combine::Sum, span, [turned]))
    }),
    ("reduce before", |m| {
        let (class, ..) = m.contraction();
        let axis = m.below(2) as u8;
        m.sum_along(&[axis], class)
    }),
];

const CHOICES: &[Instance] = &[
    ("fold numbers", |m| {
        let value = m.coefficient();
        let value = number(&mut m.eg, value);
        m.scalars(&[value], |_, x| x[0].tanh())
    }),
    ("choose", |m| {
        let (x, y, z) = (m.full(), m.some(), m.some());
        let number_type = vec![TensorType::f32([]); 2];
        let condition = m.op(&number_type, &[x, y], |_, x| x[0].less(x[1]));
        match m.below(3) {
            0 => m.select(condition, z, z),
            1 => {
                let inner = m.select(condition, x, y);
                m.select(condition, inner, z)
            }
            _ => {
                let (scaled, zero) = (raw_sum(&mut m.eg, [(-3.0, z)]), number(&mut m.eg, 0.0));
                m.select(condition, scaled, zero)
            }
        }
    }),
];

const VIEWS: &[Instance] = &[
    ("compose views", |m| {
        let x = m.full();
        let inner = match m.below(2) {
            0 => m.turned(x),
            _ => raw_sum(&mut m.eg, [(-2.0, x)]),
        };
        let sources = [[1, 0].as_slice(), &[1, NO_AXIS, 0]][m.below(2)];
        m.eg.add(Term::Rename(sources.into(), [inner]))
    }),
    ("compose reshapes", |m| {
        let (x, wide, flat) = (m.full(), [m.rows, m.columns], [m.rows * m.columns]);
        match m.below(3) {
            0 => {
                let scaled = raw_sum(&mut m.eg, [(-2.0, x)]);
                m.reshape(scaled, &wide, &flat)
            }
            back => {
                let inner = m.reshape(x, &wide, &flat);
                let turned = [m.columns, m.rows];
                m.reshape(inner, &flat, if back == 1 { &wide } else { &turned })
            }
        }
    }),
];

const CONTRACTIONS: &[Instance] = &[
    ("reassociate", |m| {
        let (inner, _, _) = m.contraction();
        let (k, n) = (m.columns, 2 + m.below(3));
        match m.below(2) {
            0 => {
                let right = m.leaf(&[k, n]);
                contract(&mut m.eg, k as u32, inner, right)
            }
            _ => {
                let left = m.leaf(&[n, m.rows]);
                contract(&mut m.eg, m.rows as u32, left, inner)
            }
        }
    }),
    ("scale outside", |m| {
        let (_, [a, b], k) = m.contraction();
        let row = m.leaf(&[m.rows, 1]);
        let left = match m.below(2) {
            0 => m.product(a, row),
            _ => raw_sum(&mut m.eg, [(-0.5, a)]),
        };
        contract(&mut m.eg, k, left, b)
    }),
    ("scale inside", |m| {
        let (class, ..) = m.contraction();
        let scale = match m.below(2) {
            0 => m.leaf(&[m.rows, 1]),
            _ => m.leaf(&[m.columns]),
        };
        let factors = vec![(2, class), (m.half(), scale)];
        raw_product(&mut m.eg, factors)
    }),
    ("multiple inside", |m| {
        let (class, ..) = m.contraction();
        raw_sum(&mut m.eg, [(-0.5, class)])
    }),
    ("transpose before", |m| {
        let (class, ..) = m.contraction();
        m.turned(class)
    }),
    ("reshape around", |m| {
        let (batch, k) = (2, 3);
        let x = m.leaf(&[batch, m.rows, k]);
        let b = m.leaf(&[k, m.columns]);
        let flat = m.reshape(x, &[batch, m.rows, k], &[batch * m.rows, k]);
        let inner = contract(&mut m.eg, k as u32, flat, b);
        let (flat, wide) = ([batch * m.rows, m.columns], [batch, m.rows, m.columns]);
        m.reshape(inner, &flat, &wide)
    }),
    ("constant operand", |m| {
        let (_, [a, b], k) = m.contraction();
        match m.below(2) {
            0 => {
                let row = m.leaf(&[m.rows, 1]);
                contract(&mut m.eg, k, row, b)
            }
            _ => {
                let row = m.leaf(&[m.columns]);
                contract(&mut m.eg, k, a, row)
            }
        }
    }),
    ("common operand", |m| {
        let (first, [a, b], k) = m.contraction();
        let second = match m.below(2) {
            0 => {
                let other = m.leaf(&[k as usize, m.columns]);
                contract(&mut m.eg, k, a, other)
            }
            _ => {
                let other = m.leaf(&[m.rows, k as usize]);
                contract(&mut m.eg, k, other, b)
            }
        };
        m.combination(first, second)
    }),
    ("sum before merging", |m| {
        let (batch, time, width) = (2, 3, m.rows);
        let shapes: [&[usize]; 3] = [&[batch, time, width], &[batch, 1, width], &[width]];
        let left = shapes[m.below(3)];
        let right = if left.len() == 3 && left[1] == 3 {
            shapes[1 + m.below(2)]
        } else {
            shapes[0]
        };
        let operands = [left, right].map(|dims| {
            let leaf = m.leaf(dims);
            m.reshape(leaf, &[batch, time, width], &[batch * time, width])
        });
        let turned = m.turned(operands[0]);
        contract(&mut m.eg, (batch * time) as u32, turned, operands[1])
    }),
];

const SIBLINGS: &[Instance] = &[
    ("product of all", |m| {
        let k = m.rows;
        let whole = m.leaf(&[k, 5]);
        let (start, count) = (m.below(3), 1 + m.below(2));
        let part = m.slice(whole, [k, 5], start, count);
        let left = m.leaf(&[m.columns, k]);
        contract(&mut m.eg, k as u32, left, part)
    }),
    ("sum of columns", |m| {
        let size = [m.rows, m.columns];
        let (start, count) = (m.below(2), m.columns - 1);
        let (whole, ..) = m.contraction();
        let other = m.some();
        let first = m.slice(whole, size, start, count);
        match m.eg[other].data.extents.varies(0) {
            true => {
                let full = m.full();
                let second = m.slice(full, size, start, count);
                m.combination(first, second)
            }
            false => m.combination(first, other),
        }
    }),
    ("reshape of columns", |m| {
        let (k, rows, columns) = (3, m.rows, m.columns);
        let (left, right) = (m.leaf(&[2 * rows, k]), m.leaf(&[k, columns]));
        let whole = contract(&mut m.eg, k as u32, left, right);
        let (start, count) = (m.below(2), columns - 1);
        let part = m.slice(whole, [2 * rows, columns], start, count);
        m.reshape(part, &[2 * rows, count], &[2, rows, count])
    }),
    ("sum of siblings", |m| {
        let (k, rows) = (m.columns, m.rows);
        let whole = m.leaf(&[k, 5]);
        let products = [(0, 2), (2, 3)].map(|(start, count)| {
            let part = m.slice(whole, [k, 5], start, count);
            let turned = m.turned(part);
            let left = m.leaf(&[rows, count]);
            contract(&mut m.eg, count as u32, left, turned)
        });
        let (other, scale) = (m.leaf(&[rows, k]), m.coefficient());
        let terms = [(scale, products[0]), (scale, products[1]), (-0.5, other)];
        let count = 2 + m.below(2);
        raw_sum(&mut m.eg, terms.into_iter().take(count))
    }),
];

/// How often a rule found something new in its instances; all terms of all classes are equal.
fn try_rule(rule: &Rule, make: fn(&mut Maker) -> Id) -> usize {
    let mut fired = 0;
    for seed in 0..INSTANCES as u64 {
        let mut maker = Maker::new(seed);
        let class = make(&mut maker);
        maker.eg.rebuild();
        let class = maker.eg.find(class);
        let nodes: Vec<Term> = maker.eg[class].nodes.clone();
        for node in nodes.iter().filter(|node| node.discriminant() == rule.kind) {
            for equal in (rule.find)(&mut maker.eg, class, node) {
                fired += usize::from(maker.eg.union(class, equal));
            }
        }
        maker.eg.rebuild();
        for fill in FILLS {
            let values = maker.values(fill);
            if let Err(message) = verify_terms(&maker.eg, &values) {
                panic!("{}, seed {seed}, {fill:?}: {message}", rule.name);
            }
        }
    }
    fired
}

#[test]
fn both_sides_of_every_rule_are_equal() {
    let contractions = [CONTRACTIONS, SIBLINGS].concat();
    let instances = [
        SUMS_AND_PRODUCTS,
        REDUCTIONS,
        CHOICES,
        VIEWS,
        &contractions[..],
    ]
    .concat();
    for rule in all() {
        let found = instances.iter().find(|instance| instance.0 == rule.name);
        let Some((_, make)) = found else {
            panic!("`{}` has no instances", rule.name);
        };
        let fired = try_rule(&rule, *make);
        println!("{:20} {fired:4}", rule.name);
        assert!(fired > INSTANCES / 6, "`{}` fired {fired} times", rule.name);
    }
    assert_eq!(instances.len(), all().len());
}
