//! Values to try graphs on, and what "equal" means.

use std::collections::HashMap;

use meganeura::egraph::{CostModel, Report, Rewrites, optimize};
use meganeura::ir::{Array, Attributes, DType, Domain, Graph, Lowering};
use meganeura::ops::evaluate;

/// A counter-based generator (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Elements drawn from a domain.
pub fn draw(shape: &meganeura::ir::Shape, domain: Domain, random: &mut Random) -> Array {
    Array::from_fn(shape, |_| match domain {
        Domain::Uniform(low, high) => random.uniform(low, high),
        Domain::Integers(low, high) => {
            f64::from(low) + random.below((high - low + 1) as usize) as f64
        }
        Domain::Indices(bound) => random.below(bound as usize) as f64,
        Domain::Truth => random.below(2) as f64,
    })
}

/// How leaves are filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Floats in a range.
    Uniform(f64, f64),
    /// Small integers: zeros and ties.
    Ties,
    /// A large common offset.
    Offset,
    /// A NaN here and there.
    Nan,
    /// A NaN or an infinity here and there.
    NotFinite,
}

pub const FILLS: [Fill; 4] = [
    Fill::Uniform(-1.5, 1.5),
    Fill::Ties,
    Fill::Offset,
    Fill::NotFinite,
];

/// For results of whole graphs: an infinity may become a NaN where sums are taken in another
/// order, and a maximum downstream tells those apart.
pub const SAME_KIND: [Fill; 4] = [
    Fill::Uniform(-1.5, 1.5),
    Fill::Ties,
    Fill::Offset,
    Fill::Nan,
];

/// A value for every leaf; integers stay below `bound`.
pub fn fill(graph: &Graph, kind: Fill, bound: u32, random: &mut Random) -> HashMap<String, Array> {
    let mut leaves = HashMap::new();
    for node in graph.nodes().iter() {
        let (Lowering::Leaf, Attributes::Named(name, shape, dtype)) =
            (node.op.def.lowering, &node.op.attributes)
        else {
            continue;
        };
        let mut value = match (dtype, kind) {
            (DType::U32, _) => draw(shape, Domain::Indices(bound), random),
            (DType::Bool, _) => draw(shape, Domain::Truth, random),
            (_, Fill::Uniform(low, high)) => draw(shape, Domain::Uniform(low, high), random),
            (_, Fill::Ties) => draw(shape, Domain::Integers(-2, 2), random),
            (_, Fill::Offset) => draw(shape, Domain::Uniform(-1.0, 1.0), random).map(|x| x + 20.0),
            (_, Fill::Nan | Fill::NotFinite) => draw(shape, Domain::Uniform(-1.5, 1.5), random),
        };
        let singular = match kind {
            Fill::Nan => &[f64::NAN][..],
            Fill::NotFinite => &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
            _ => &[],
        };
        if !singular.is_empty() && *dtype == DType::F32 && random.below(3) == 0 {
            let at = random.below(value.data.len());
            if let Some(slot) = value.data.get_mut(at) {
                *slot = singular[random.below(singular.len())];
            }
        }
        leaves.insert(name.clone(), value);
    }
    leaves
}

/// The values of the outputs and the updates, by name.
pub fn results(graph: &Graph, leaves: &HashMap<String, Array>) -> Vec<(String, Array)> {
    let values = evaluate(graph, leaves);
    let value = |id: meganeura::ir::NodeId| values[id.index()].clone();
    let names: HashMap<_, _> = graph
        .variables()
        .into_iter()
        .map(|(variable, id)| (id, variable.name))
        .collect();
    let outputs = graph
        .outputs()
        .into_iter()
        .map(|(name, id)| (name, value(id)));
    let updates = graph
        .updates()
        .into_iter()
        .map(|(variable, id)| (format!("update of {}", names[&variable]), value(id)));
    outputs.chain(updates).collect()
}

/// Whether two arrays are equal up to rounding, and not finite in the same places. What
/// underflows or overflows on one side only is no difference.
pub fn assert_equal(what: &str, a: &Array, b: &Array) {
    assert_eq!(a.shape, b.shape, "{what}: the shape");
    let scale = a
        .data
        .iter()
        .filter(|x| x.is_finite())
        .fold(1.0f64, |scale, x| scale.max(x.abs()));
    for (index, (&x, &y)) in a.data.iter().zip(&b.data).enumerate() {
        assert_eq!(
            x.is_finite(),
            y.is_finite(),
            "{what}: element {index} is {x} as given, {y} optimized"
        );
        assert!(
            !x.is_finite() || (x - y).abs() <= 1e-7 * scale,
            "{what}: element {index} is {x} as given, {y} optimized (scale {scale})"
        );
    }
}

/// All ways to optimize.
pub const ALL: [Rewrites; 3] = [Rewrites::Off, Rewrites::Greedy, Rewrites::EGraph];

/// Optimize a graph in all ways and compare all results on all kinds of values.
pub fn check(what: &str, graph: &Graph, bound: u32, fills: &[Fill], seed: u64) -> Report {
    check_as(what, graph, bound, fills, seed, &ALL)
}

/// Optimize a graph in some ways and compare all results on some kinds of values.
pub fn check_as(
    what: &str,
    graph: &Graph,
    bound: u32,
    fills: &[Fill],
    seed: u64,
    ways: &[Rewrites],
) -> Report {
    let model = CostModel::default();
    let samples: Vec<_> = fills
        .iter()
        .map(|&kind| {
            let leaves = fill(graph, kind, bound, &mut Random::new(seed));
            let before = results(graph, &leaves);
            (kind, leaves, before)
        })
        .collect();
    let mut last = Report::default();
    for &rewrites in ways {
        let (optimized, report) = optimize(graph, rewrites, &model);
        let costlier = |reason: &String| reason == "the result would cost more";
        assert!(
            report.kept.iter().all(costlier),
            "{what}, {rewrites:?}: {:?}",
            report.kept
        );
        assert!(report.cost_after <= report.cost_before, "{what}: {report}");
        let names = |graph: &Graph| -> Vec<String> {
            graph.inputs().into_iter().map(|input| input.0).collect()
        };
        assert_eq!(names(graph), names(&optimized), "{what}: the inputs");
        assert_eq!(graph.variables().len(), optimized.variables().len());
        for (kind, leaves, before) in &samples {
            let after = results(&optimized, leaves);
            assert_eq!(before.len(), after.len(), "{what}: the number of results");
            for ((name, a), (other, b)) in before.iter().zip(&after) {
                assert_eq!(name, other);
                assert_equal(&format!("{what}, {rewrites:?}, {kind:?}, `{name}`"), a, b);
            }
        }
        last = report;
    }
    last
}

/// Do the same for many seeds, on all cores.
pub fn for_seeds(seeds: std::ops::Range<u64>, each: impl Fn(u64) + Sync) {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    each(seed);
                }
            });
        }
    });
}
