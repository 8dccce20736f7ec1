//! The baseline: bottom-up rewriting, where a rule is applied only if the term it gives is
//! cheaper at once.

use egg::{Id, Language};
use rustc_hash::{FxHashMap, FxHashSet};

use super::build::Solution;
use super::cost::CostModel;
use super::explain::{annotate_with, change};
use super::extract::{Table, price};
use super::facts::Terms;
use super::language::Term;
use super::report::Report;
use super::rules::{CONTRACT, FACTOR, SHARE, SIBLINGS, SIMPLIFY};
use super::saturate::remake;

/// Steps of rewriting one term.
const STEPS: usize = 20;

/// Rewrite the terms below the roots, operands first, with the same rules.
pub(super) fn greedy(
    eg: &Terms,
    roots: &[Id],
    model: &CostModel,
    report: &mut Report,
) -> Option<Solution> {
    let mut table = Table::new(eg, roots, model);
    let choices = table.first()?;
    let start = table.solution(&choices)?;
    let mut eg = Terms::new(eg.analysis.clone());
    let mut ids: Vec<Id> = Vec::new();
    let mut histories = Vec::new();
    let mut paid: FxHashSet<Id> = FxHashSet::default();
    for step in &start.steps {
        eg.analysis.scope = step.known.scope;
        let operands: Vec<Id> = step.operands.iter().map(|&of| ids[of]).collect();
        let mut id = remake(&mut eg, &step.term, &operands);
        let mut changes = Vec::new();
        for _ in 0..STEPS {
            match improved(&mut eg, id, &paid, model) {
                Some((rule, from, better)) => {
                    report.fired(rule, 1);
                    changes.push(change(&eg, rule, &from, better));
                    id = better;
                }
                None => break,
            }
        }
        histories.push((id, changes));
        report.iterations += 1;
        paid.insert(eg.find(id));
        ids.push(id);
    }
    eg.rebuild();
    report.stop("one pass");
    report.nodes = report.nodes.max(eg.total_number_of_nodes());
    report.classes = report.classes.max(eg.number_of_classes());
    let roots: Vec<Id> = start.roots.iter().map(|&root| ids[root]).collect();
    let mut table = Table::new(&eg, &roots, model);
    let choices = table.first()?;
    let mut solution = table.solution(&choices)?;
    annotate_with(&mut solution, &eg, histories);
    Some(solution)
}

/// The first rule that gives a cheaper term, what it saw, and that term.
fn improved(
    eg: &mut Terms,
    id: Id,
    paid: &FxHashSet<Id>,
    model: &CostModel,
) -> Option<(&'static str, Term, Id)> {
    let class = eg.find(id);
    let mut memo = FxHashMap::default();
    let now = cost(eg, class, paid, model, &mut memo);
    let nodes: Vec<Term> = eg[class].nodes.clone();
    for rule in [SIMPLIFY, CONTRACT, SIBLINGS, FACTOR, SHARE].concat() {
        for node in nodes.iter().filter(|node| node.discriminant() == rule.kind) {
            let node = node.clone().map_children(|child| eg.find(child));
            for equal in (rule.find)(eg, class, &node) {
                let equal = eg.find(equal);
                let mut memo = FxHashMap::default();
                let then = cost(eg, equal, paid, model, &mut memo);
                if equal != eg.find(class) && then < now * (1.0 - 1e-9) {
                    return Some((rule.name, node, equal));
                }
            }
        }
    }
    None
}

/// The cost of the cheapest tree of a class, where what is paid already costs nothing;
/// infinite on a cycle.
fn cost(
    eg: &Terms,
    class: Id,
    paid: &FxHashSet<Id>,
    model: &CostModel,
    memo: &mut FxHashMap<Id, f64>,
) -> f64 {
    let class = eg.find(class);
    if paid.contains(&class) {
        return 0.0;
    }
    if let Some(&known) = memo.get(&class) {
        return known;
    }
    memo.insert(class, f64::INFINITY);
    let mut best = f64::INFINITY;
    for node in &eg[class].nodes {
        let work = price(eg, model, node);
        let mut total = work.time + work.reduced * model.pass + 1e-3;
        for child in node.children() {
            total += cost(eg, *child, paid, model, memo);
        }
        best = best.min(total);
    }
    memo.insert(class, best);
    best
}
