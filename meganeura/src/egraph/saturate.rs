//! From regions to solutions.

use super::build::{Solution, assemble, without_dead_code};
use super::cost::CostModel;
use super::encode::encode;
use super::extract::Table;
use super::region::{Region, cut};
use super::{Report, Rewrites};
use crate::ir::Graph;

/// The graph with its regions optimized, if that is cheaper.
pub(super) fn regions(
    graph: &Graph,
    rewrites: Rewrites,
    model: &CostModel,
    report: &mut Report,
) -> Option<Graph> {
    let cut = cut(graph);
    report.regions = cut.regions.len();
    report.instances = cut.instances.len();
    let mut solutions: Vec<Option<Solution>> = Vec::new();
    for region in &cut.regions {
        let solution = match solve(region, rewrites, model, report) {
            Ok(solution) if reaches_no_further(region, &solution) => Some(solution),
            Ok(_) => {
                report.kept.push("a result would need more".to_owned());
                None
            }
            Err(reason) => {
                report.kept.push(reason);
                None
            }
        };
        solutions.push(solution);
    }
    let result = match assemble(graph, &cut, &solutions) {
        Ok(result) => without_dead_code(&result),
        Err(reason) => {
            report.kept.push(reason);
            return None;
        }
    };
    let after = model.estimate(&result).nanoseconds;
    if after > report.cost_before {
        report.kept.push("the result would cost more".to_owned());
        return None;
    }
    report.cost_after = after;
    Some(result)
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

fn solve(
    region: &Region,
    _rewrites: Rewrites,
    model: &CostModel,
    report: &mut Report,
) -> Result<Solution, String> {
    let (eg, roots) = encode(region)?;
    report.nodes = report.nodes.max(eg.total_number_of_nodes());
    report.classes = report.classes.max(eg.number_of_classes());
    let mut table = Table::new(&eg, &roots, model);
    let (choices, _) = table.search().ok_or("no selection was found")?;
    table
        .solution(&choices)
        .ok_or_else(|| "no selection was found".to_owned())
}
