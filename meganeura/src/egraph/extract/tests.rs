//! The judge: on small graphs, all selections there are.

use std::time::{Duration, Instant};

use super::{NONE, Table};
use crate::autodiff::gradients;
use crate::egraph::cost::CostModel;
use crate::egraph::encode::encode;
use crate::egraph::region::cut;
use crate::egraph::report::Report;
use crate::egraph::rules::{CONTRACT, FACTOR, SHARE, SIMPLIFY};
use crate::egraph::saturate::run;
use crate::ir::{DType, Graph, Tensor};

/// Selections that the judge looks at before it gives up on a graph.
const MOST: usize = 40_000;

/// The cost of the cheapest selection of all, and how many there are; none if too many.
struct Judge<'a, 'b> {
    table: &'a mut Table<'b>,
    choices: Vec<usize>,
    best: f64,
    by: Vec<usize>,
    seen: usize,
}

/// A selection, a line for each class.
fn text(table: &Table<'_>, choices: &[usize]) -> String {
    let order = table.order(choices).unwrap_or_default();
    let line = |class: usize| {
        let choice = &table.classes[class][choices[class]];
        format!("  {class} = {:?} {:?}\n", choice.term, choice.operands)
    };
    order.into_iter().map(line).collect()
}

impl Judge<'_, '_> {
    /// A selected class that has no choice yet.
    fn open(&self) -> Option<usize> {
        let mut seen = vec![false; self.choices.len()];
        let mut stack = self.table.roots.clone();
        while let Some(class) = stack.pop() {
            if std::mem::replace(&mut seen[class], true) {
                continue;
            }
            match self.table.classes[class].get(self.choices[class]) {
                Some(choice) => stack.extend(&choice.operands),
                None => return Some(class),
            }
        }
        None
    }

    fn explore(&mut self) -> Option<()> {
        let Some(class) = self.open() else {
            self.seen += 1;
            let cost = self.table.total(&self.choices);
            if cost < self.best {
                self.best = cost;
                self.by = self.choices.clone();
            }
            return (self.seen < MOST).then_some(());
        };
        for index in 0..self.table.classes[class].len() {
            self.choices[class] = index;
            self.explore()?;
        }
        self.choices[class] = NONE;
        Some(())
    }
}

/// A small random graph with its gradient.
fn graph(seed: u64) -> Graph {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % bound
    };
    let graph = Graph::new();
    let shape = [64, 64];
    let mut values: Vec<Tensor<'_>> = ["x", "y"]
        .map(|name| graph.input(name, shape, DType::F32))
        .to_vec();
    for _ in 0..2 + below(4) {
        let (a, b) = (values[below(values.len())], values[below(values.len())]);
        values.push(match below(8) {
            0 | 1 => a + b,
            2 | 3 => a * b,
            4 => a * 2.0,
            5 => a.sum(&[1]).broadcast(shape),
            6 => a.matmul(b),
            _ => a.tanh(),
        });
    }
    let y = values[values.len() - 1];
    graph.output("y", y);
    if below(2) == 0 {
        let found = gradients(&[(y, values[1])], &values[..1]);
        graph.output("dx", found[0]);
    }
    graph
}

#[test]
fn extraction_is_exact_on_small_graphs() {
    let model = CostModel::default();
    let (mut judged, mut selections, mut missed) = (0, 0, 0);
    for seed in 0..400 {
        let graph = graph(seed);
        let cut = cut(&graph, &model.depths(&graph));
        let Ok((mut eg, roots)) = encode(&cut.regions[0]) else {
            continue;
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let rules = [SIMPLIFY, CONTRACT, FACTOR, SHARE];
        run(&mut eg, &rules, 2, 70, deadline, &mut Report::default());
        let mut table = Table::new(&eg, &roots, &model);
        if table.classes.len() > 20 {
            continue;
        }
        let Some((choices, found)) = table.search() else {
            panic!("seed {seed}: nothing was selected");
        };
        table.fuel = usize::MAX;
        let mut judge = Judge {
            choices: vec![NONE; table.classes.len()],
            table: &mut table,
            best: f64::INFINITY,
            by: Vec::new(),
            seen: 0,
        };
        if judge.explore().is_none() {
            continue;
        }
        judged += 1;
        selections += judge.seen;
        let (best, by) = (judge.best, judge.by);
        missed += usize::from((found - best).abs() > 1e-9 * best);
        // Four changes that only pay together are not looked for.
        assert!(
            found <= best * 1.05,
            "seed {seed}: {found}\n{}is not the best, {best}\n{}",
            text(&table, &choices),
            text(&table, &by)
        );
    }
    println!("{judged} graphs, {selections} selections, {missed} missed");
    assert!(missed * 200 <= judged, "{missed} of {judged} missed");
    assert!(judged > 100, "{judged} graphs were small enough");
}
