//! Random graphs.

use meganeura::autodiff::gradients;
use meganeura::egraph::{CostModel, optimize, verify};
use meganeura::ir::{Array, DType, Graph, Init, Tensor};
use meganeura::ops::expand;

use meganeura::egraph::Rewrites;

use super::support::{ALL, FILLS, Fill, Random, SAME_KIND, check_as, fill, for_seeds, results};

/// A value of the wanted shape from one of any shape that broadcasts to it or not.
fn fitted<'g>(x: Tensor<'g>, dims: [usize; 2]) -> Option<Tensor<'g>> {
    let shape = x.shape();
    let wanted = meganeura::ir::Shape::from(dims);
    (shape.broadcast(&wanted).as_ref() == Some(&wanted)).then_some(x)
}

/// Ops of which every result is not finite where an operand is not.
const SPREADING: [usize; 14] = [0, 1, 2, 3, 4, 6, 7, 8, 14, 15, 17, 18, 19, 24];

/// A random op, one of `kinds`, on random earlier values.
fn step<'g>(
    graph: &'g Graph,
    values: &[Tensor<'g>],
    kinds: &[usize],
    random: &mut Random,
) -> Tensor<'g> {
    let a = values[random.below(values.len())];
    let b = values[random.below(values.len())];
    let (a, b) = match a.shape().broadcast(&b.shape()) {
        Some(_) => (a, b),
        None => (a, a),
    };
    let rank = a.shape().rank();
    let last = [rank.saturating_sub(1)];
    match kinds[random.below(kinds.len())] {
        0 | 1 => a + b,
        2 => a - b,
        3 | 4 => a * b,
        5 => a / (b * b + 0.5),
        6 => a * [0.5, -1.0, 2.0, 1.0 / 3.0, 0.1][random.below(5)],
        7 => a + [1.0, -0.3][random.below(2)],
        8 => -a,
        9 => a.tanh(),
        10 => a.sigmoid(),
        11 => (a * 0.3).exp(),
        12 => (a * a + 1.0).log(),
        13 => (a * a + 0.25).rsqrt(),
        14 if rank > 0 => a.sum(&last),
        15 if rank > 0 => a - a.mean(&last),
        16 if rank > 0 => a.max(&last),
        17 if rank == 2 => a.sum(&[0]),
        18 if rank == 2 && a.shape().dims()[0] == a.shape().dims()[1] => a.swap_last(),
        19 if rank == 2 => {
            let shape = a.shape().broadcast(&b.shape()).expect("they broadcast");
            let (a, b) = (a.broadcast(&shape), b.broadcast(&shape));
            a.matmul(b.swap_last()).sum(&[1])
        }
        20 => a.less(b).select(a, b * 0.5),
        21 => a.maximum(b),
        22 if rank > 0 => a.softmax(),
        23 => a.silu(),
        _ => graph.constant(0.7) * a,
    }
}

/// A graph of `steps` random ops with outputs and gradients, as primitives.
pub fn graph(seed: u64, steps: usize) -> Graph {
    let all: Vec<usize> = (0..24).collect();
    graph_of(&all, seed, steps)
}

fn graph_of(kinds: &[usize], seed: u64, steps: usize) -> Graph {
    let mut random = Random::new(seed);
    let rows = 2 + random.below(3);
    let dims = [rows, [rows, 5][random.below(2)]];
    let graph = Graph::new();
    let x = graph.input("x", dims, DType::F32);
    let w = graph.parameter("w", [dims[1]], Init::Ones);
    let row = graph.input("row", [dims[0], 1], DType::F32);
    let mut values = vec![x, w, row, x];
    for index in 0..steps {
        let scope = format!("layer{}", index / 6);
        let value = graph.scoped(&scope, || step(&graph, &values, kinds, &mut random));
        values.push(value);
    }
    let y = values
        .iter()
        .rev()
        .find_map(|&value| fitted(value, dims))
        .unwrap_or(x);
    let y = y + x * 0.1;
    graph.output("y", y);
    graph.output("last", values[values.len() - 1]);
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    let (graph, images) = expand(&graph);
    let image = |id| graph.tensor(images.get(id).expect("an image"));
    let (y, x, w) = (image(y.id()), image(x.id()), image(w.id()));
    let upstream = graph.input("upstream", y.shape(), DType::F32);
    let found = gradients(&[(y, upstream)], &[x, w]);
    graph.output("dx", found[0]);
    graph.update(w, w - found[1] * 0.1);
    graph
}

/// Small graphs, many: finite values and NaNs come out as they would without rewriting.
#[test]
fn random_graphs_stay_equal() {
    for_seeds(0..10_000, |seed| {
        let graph = graph(seed, 2 + (seed as usize * 7) % 9);
        let fills = [SAME_KIND[seed as usize % 3], Fill::Nan];
        let ways = if seed % 8 == 0 {
            &ALL[..]
        } else {
            &[Rewrites::EGraph]
        };
        check_as(&format!("seed {seed}"), &graph, 1, &fills, seed, ways);
    });
}

#[test]
fn larger_random_graphs_stay_equal() {
    for_seeds(0..150, |seed| {
        let graph = graph(seed, 10 + (seed as usize * 7) % 11);
        check_as(&format!("seed {seed}"), &graph, 1, &SAME_KIND, seed, &ALL);
    });
}

/// Where nothing turns an infinity into a finite number, what is not finite stays so. (An
/// infinity may become a NaN, since sums are taken in another order: tanh of it would tell.)
#[test]
fn infinities_stay_not_finite() {
    for_seeds(0..1_000, |seed| {
        let graph = graph_of(&SPREADING, seed, 2 + (seed as usize * 7) % 9);
        let ways = [Rewrites::EGraph];
        let fills = [Fill::NotFinite];
        check_as(&format!("seed {seed}"), &graph, 1, &fills, seed, &ways);
    });
}

/// With all ops: of an infinity in an input nothing is touched but what depends on it.
#[test]
fn an_infinity_touches_only_what_depends_on_it() {
    let compared = std::sync::atomic::AtomicUsize::new(0);
    for_seeds(0..1_000, |seed| {
        let graph = graph(seed, 2 + (seed as usize * 7) % 9);
        let mut random = Random::new(seed);
        let leaves = fill(&graph, Fill::Uniform(-1.5, 1.5), 1, &mut random);
        let name = ["x", "w", "row"][random.below(3)];
        let place = random.below(leaves[name].data.len());
        let sign = [1.0, -1.0][random.below(2)];
        let with = |graph: &Graph, value: f64| {
            let mut leaves = leaves.clone();
            if let Some(array) = leaves.get_mut(name) {
                array.data[place] = value;
            }
            results(graph, &leaves)
        };
        let infinite = sign * f64::INFINITY;
        let given = with(&graph, infinite);
        let others = [f64::NAN, -infinite, 1.0, -2.5].map(|value| with(&graph, value));
        let (rewritten, _) = optimize(&graph, Rewrites::EGraph, &CostModel::default());
        for (index, (result, found)) in with(&rewritten, infinite).iter().enumerate() {
            for (element, found) in found.data.iter().enumerate() {
                let wanted = given[index].1.data[element];
                let same = |other: &Vec<(String, Array)>| other[index].1.data[element] == wanted;
                if wanted.is_finite() && others.iter().all(same) {
                    compared.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    assert!(
                        (found - wanted).abs() <= 1e-7 * wanted.abs().max(1.0),
                        "seed {seed}, `{result}`, element {element}: {wanted} as given, {found}"
                    );
                }
            }
        }
    });
    assert!(compared.into_inner() > 5_000);
}

/// What is not kept, and can not be: which of the values that are not finite one is. A sum in
/// another order meets its infinities in another order.
#[test]
fn an_infinity_may_become_a_nan_or_cease_to_be_one() {
    let at_infinity = |build: for<'g> fn(Tensor<'g>) -> Tensor<'g>| {
        let graph = Graph::new();
        let x = graph.input("x", [4], DType::F32);
        graph.output("y", build(x));
        let (rewritten, _) = optimize(&graph, Rewrites::EGraph, &CostModel::default());
        let infinite = Array::new([4], vec![f64::INFINITY; 4]);
        let leaves = [("x".to_owned(), infinite)].into();
        [&graph, &rewritten].map(|graph| results(graph, &leaves)[0].1.data[0])
    };
    // ∞ − 2·∞ is NaN, −∞ is not; tanh of it is −1.
    let [given, rewritten] = at_infinity(|x| (x - x * 2.0).tanh());
    assert!(given.is_nan() && rewritten == -1.0, "{given}, {rewritten}");
}

/// Each term by itself, on the values of its operands: NaNs and infinities as well.
#[test]
fn every_term_of_a_saturated_graph_is_equal() {
    let terms = std::sync::atomic::AtomicUsize::new(0);
    for_seeds(0..200, |seed| {
        let graph = graph(seed, 3 + (seed as usize * 5) % 14);
        let samples = FILLS.map(|kind| fill(&graph, kind, 1, &mut Random::new(seed)));
        match verify(&graph, &samples, 1500) {
            Ok(verified) => {
                terms.fetch_add(verified.terms, std::sync::atomic::Ordering::Relaxed);
            }
            Err(message) => panic!("seed {seed}: {message}"),
        }
    });
    println!("{} terms", terms.into_inner());
}
