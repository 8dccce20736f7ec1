//! From regions to solutions: phases of saturation, extraction after each, and a fresh start
//! from the best term when the e-graph has grown large.

use std::time::{Duration, Instant};

use egg::Id;

use super::build::{Assembled, Solution, assemble, live_copy};
use super::cost::CostModel;
use super::encode::encode;
use super::explain::{Chronicle, History, Made, Origins};
use super::extract::Table;
use super::facts::{Facts, Terms};
use super::greedy::greedy;
use super::language::Term;
use super::normal::{product, raw_product, sum};
use super::region::{Cut, Region, cut};
use super::rules::{CONTRACT, FACTOR, Rule, SHARE, SIBLINGS, SIMPLIFY};
use super::{Report, Rewrites};
use crate::ir::{Attributes, Graph, NodeId};

/// The phases and how many iterations each runs.
const PHASES: [(&[&[Rule]], usize); 3] = [
    (&[SIMPLIFY, CONTRACT, SIBLINGS], 6),
    (&[FACTOR], 3),
    (&[SHARE], 2),
];

/// An e-graph may grow to this multiple of its first size, and no further than the limit.
const GROWTH: usize = 10;
const NODE_LIMIT: usize = 8000;
/// Beyond this multiple, the next phase starts afresh from the best term.
const AFRESH: usize = 8;
/// Rounds of all phases, while the cost falls.
const ROUNDS: usize = 4;
/// A safety net: node limits come first, so that results do not depend on the clock.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The graph with its regions optimized, if that is cheaper.
pub(super) fn regions(
    graph: &Graph,
    rewrites: Rewrites,
    model: &CostModel,
    report: &mut Report,
) -> Option<Graph> {
    let cut = cut(graph, &model.depths(graph));
    report.regions = cut.regions.len();
    report.instances = cut.instances.len();
    let deadline = Instant::now() + TIME_LIMIT;
    let mut solutions: Vec<Option<Solution>> = Vec::new();
    for region in &cut.regions {
        let solution = solve(region, rewrites, model, deadline, report);
        solutions.push(solution.unwrap_or_else(|reason| {
            report.kept.push(reason);
            None
        }));
    }
    if solutions.iter().all(Option::is_none) {
        return None;
    }
    let assembled = match assemble(graph, &cut, &solutions) {
        Ok(assembled) => assembled,
        Err(reason) => {
            report.kept.push(reason);
            return None;
        }
    };
    let (result, images) = live_copy(&assembled.graph);
    let after = model.estimate(&result);
    if after.nanoseconds > report.cost_before {
        report.stop("the whole would cost more");
        return None;
    }
    report.cost_after = after.nanoseconds;
    report.after = after;
    let image = |node: NodeId| images.get(node);
    report.origins = origins(graph, &cut, &solutions, &assembled, image);
    Some(result)
}

/// How the nodes of a result came about.
fn origins(
    graph: &Graph,
    cut: &Cut,
    solutions: &[Option<Solution>],
    assembled: &Assembled,
    image: impl Fn(NodeId) -> Option<NodeId>,
) -> Origins {
    let nodes = graph.nodes();
    let name = |leaf: &NodeId| match &nodes[leaf.index()].op.attributes {
        Attributes::Named(name, ..) => name.clone(),
        _ => format!("%{}", leaf.index()),
    };
    let instances = cut.instances.iter();
    let names: Vec<std::sync::Arc<[String]>> = instances
        .map(|instance| instance.leaves.iter().map(name).collect())
        .collect();
    let mut origins = Origins::default();
    for &(node, place, step) in &assembled.made {
        let solution = &solutions[cut.instances[place].region];
        if let (Some(node), Some(solution)) = (image(node), solution) {
            origins.note(node, &solution.steps[step].history, &names[place]);
        }
    }
    origins
}

/// A cheaper form of a region; none where there is none.
fn solve(
    region: &Region,
    rewrites: Rewrites,
    model: &CostModel,
    deadline: Instant,
    report: &mut Report,
) -> Result<Option<Solution>, String> {
    if region.roots.is_empty() {
        return Ok(None);
    }
    let (eg, roots) = encode(region)?;
    let best = match rewrites {
        Rewrites::Greedy => greedy(&eg, &roots, model, report),
        _ => saturate(eg, roots, model, deadline, report),
    };
    let best = best.ok_or("no selection was found")?;
    if !reaches_no_further(region, &best) {
        return Err("a result would need more than before".to_owned());
    }
    let (graph, instance) = region.as_graph();
    let since = region.since(&instance.leaves);
    let before = model.estimate_region(&graph, &since).nanoseconds;
    let cut = Cut {
        regions: vec![region.clone()],
        instances: vec![instance],
    };
    let solutions = [Some(best)];
    let after = assemble(&graph, &cut, &solutions)?.graph;
    // A graph that succeeds another has its inputs in the same order.
    let inputs: Vec<_> = after.inputs().into_iter().map(|input| input.1).collect();
    let since = region.since(&inputs);
    let after = model.estimate_region(&after, &since).nanoseconds;
    let [best] = solutions;
    Ok(best.filter(|_| after < before))
}

/// No root of the solution depends on a leaf it did not depend on: so whatever order the
/// regions could be computed in before, they still can.
fn reaches_no_further(region: &Region, solution: &Solution) -> bool {
    let before = region.cones();
    let after = solution.cones(region.leaves.len());
    before.iter().zip(&after).all(|(before, after)| {
        before
            .iter()
            .zip(after)
            .all(|(&before, &after)| before || !after)
    })
}

/// Saturate in phases, keeping the cheapest selection seen.
fn saturate(
    mut eg: Terms,
    mut roots: Vec<Id>,
    model: &CostModel,
    deadline: Instant,
    report: &mut Report,
) -> Option<Solution> {
    let first = eg.total_number_of_nodes().max(30);
    let limit = (GROWTH * first).min(NODE_LIMIT.max(4 * first));
    let mut best = extract(&eg, &roots, model)?;
    let mut chronicle = Chronicle::new(&eg, Vec::new());
    for _ in 0..ROUNDS {
        let before = best.1;
        for (index, (rules, iterations)) in PHASES.into_iter().enumerate() {
            run(&mut eg, rules, iterations, limit, deadline, report);
            if let Some(found) = extract(&eg, &roots, model)
                && found.1 < best.1 * (1.0 - 1e-9)
            {
                best = found;
                chronicle.annotate(&eg, &mut best.0);
            }
            let last = index + 1 == PHASES.len();
            if last || eg.total_number_of_nodes() > AFRESH * first {
                let histories;
                (eg, roots, histories) = restart(&best.0, &eg.analysis);
                chronicle = Chronicle::new(&eg, histories);
            }
        }
        if best.1 >= before * (1.0 - 1e-6) || Instant::now() > deadline {
            break;
        }
    }
    Some(best.0)
}

fn extract(eg: &Terms, roots: &[Id], model: &CostModel) -> Option<(Solution, f64)> {
    let mut table = Table::new(eg, roots, model);
    let (choices, cost) = table.search()?;
    Some((table.solution(&choices)?, cost))
}

/// An e-graph of nothing but a solution, its roots, and what led to its classes.
fn restart(solution: &Solution, facts: &Facts) -> (Terms, Vec<Id>, Vec<(Id, History)>) {
    let mut facts = facts.clone();
    facts.log.clear();
    let mut eg = Terms::new(facts);
    let mut ids: Vec<Id> = Vec::with_capacity(solution.steps.len());
    for step in &solution.steps {
        eg.analysis.scope = step.known.scope;
        let operands: Vec<Id> = step.operands.iter().map(|&operand| ids[operand]).collect();
        let id = remake(&mut eg, &step.term, &operands);
        ids.push(id);
    }
    eg.analysis.scope = None;
    eg.rebuild();
    let roots = solution.roots.iter().map(|&root| eg.find(ids[root]));
    let roots = roots.collect();
    let steps = solution.steps.iter();
    let histories = steps
        .zip(&ids)
        .map(|(step, &id)| (id, step.history.clone()));
    (eg, roots, histories.collect())
}

/// A term on other operands, in normal form.
pub(super) fn remake(eg: &mut Terms, term: &Term, operands: &[Id]) -> Id {
    match term {
        Term::Sum(c, _) => {
            let terms: Vec<(f64, Id)> = c
                .iter()
                .map(|c| c.value())
                .zip(operands.iter().copied())
                .collect();
            sum(eg, &terms)
        }
        Term::Product(halves, _) => {
            let factors: Vec<(i16, Id)> = halves
                .iter()
                .copied()
                .zip(operands.iter().copied())
                .collect();
            match factors[..] {
                // A power that others share stays a value of its own.
                [(_, base)] if eg[base].data.constant.is_none() => raw_product(eg, factors),
                _ => product(eg, &factors),
            }
        }
        other => {
            let mut term = other.clone();
            egg::Language::children_mut(&mut term).copy_from_slice(operands);
            eg.add(term)
        }
    }
}

/// Apply rules until nothing changes or a limit is reached.
pub(super) fn run(
    eg: &mut Terms,
    rules: &[&[Rule]],
    iterations: usize,
    limit: usize,
    deadline: Instant,
    report: &mut Report,
) {
    let mut why = "iterations";
    'run: for _ in 0..iterations {
        report.iterations += 1;
        let size = eg.total_number_of_nodes();
        let mut changes = 0;
        for rule in rules.iter().copied().flatten() {
            let fired = apply(eg, rule, limit);
            report.fired(rule.name, fired);
            changes += fired;
            if eg.total_number_of_nodes() > limit {
                why = "nodes";
                break 'run;
            }
        }
        eg.rebuild();
        if changes == 0 && eg.total_number_of_nodes() == size {
            why = "saturated";
            break;
        }
        if Instant::now() > deadline {
            why = "time";
            break;
        }
    }
    eg.rebuild();
    report.stop(why);
    report.nodes = report.nodes.max(eg.total_number_of_nodes());
    report.classes = report.classes.max(eg.number_of_classes());
}

/// Apply one rule everywhere; how many classes it merged.
fn apply(eg: &mut Terms, rule: &Rule, limit: usize) -> usize {
    let mut classes: Vec<Id> = match eg.classes_for_op(&rule.kind) {
        Some(classes) => classes.collect(),
        None => return 0,
    };
    classes.sort_unstable();
    let mut fired = 0;
    for class in classes {
        if eg.total_number_of_nodes() > limit {
            break;
        }
        let nodes: Vec<Term> = eg[class]
            .nodes
            .iter()
            .filter(|node| egg::Language::discriminant(*node) == rule.kind)
            .take(super::rules::CROWD)
            .cloned()
            .collect();
        for node in nodes {
            let class = eg.find(class);
            if eg[class].data.constant.is_some() {
                break;
            }
            let node = egg::Language::map_children(node, |child| eg.find(child));
            for equal in (rule.find)(eg, class, &node) {
                if eg.find(equal) == eg.find(class) {
                    continue;
                }
                let to = eg[equal].nodes.iter().take(8).cloned().collect();
                if eg.union(class, equal) {
                    fired += 1;
                    eg.analysis.log.push(Made {
                        rule: rule.name,
                        class,
                        from: node.clone(),
                        to,
                    });
                }
            }
        }
    }
    fired
}
