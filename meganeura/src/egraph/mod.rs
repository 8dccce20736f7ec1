//! Cheaper equal graphs by equality saturation.
//!
//! The whole graph, forward and backward and update, is cut into regions (one for each layer
//! that is small enough); regions of equal structure are optimized once. A region goes into
//! an e-graph of sums, products, reductions and contractions in normal form; rules add equal
//! terms in phases; the cheapest selection by a model of what the scheduler fuses comes out.
//!
//! Rewrites may change rounding. They never make a NaN or an infinity of finite values and keep
//! every NaN. Each by itself keeps infinities too, though one may become a NaN: so what is not
//! finite stays so, up to an op that makes something finite of an infinity, such as tanh.

mod build;
mod cost;
mod emit;
mod encode;
mod explain;
mod extract;
mod facts;
mod greedy;
mod language;
mod normal;
mod region;
mod report;
mod rules;
mod saturate;
mod verify;

pub use cost::{CostModel, Estimate};
pub use explain::{Change, Explanation};
pub use report::Report;
pub use verify::{Verified, verify};

use std::time::Instant;

use crate::ir::Graph;

/// How a graph is optimized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rewrites {
    /// Not at all: only dead code goes.
    Off,
    /// Bottom-up, each rule applied where it is cheaper at once.
    Greedy,
    /// By equality saturation.
    #[default]
    EGraph,
}

/// The names of all rules, as reports have them.
pub fn rule_names() -> Vec<&'static str> {
    rules::all().iter().map(|rule| rule.name).collect()
}

/// An equal graph of the same inputs, variables, outputs and updates that costs no more by
/// the model.
pub fn optimize(graph: &Graph, rewrites: Rewrites, model: &CostModel) -> (Graph, Report) {
    let start = Instant::now();
    let plain = build::without_dead_code(graph);
    let before = model.estimate(&plain);
    let mut report = Report {
        cost_before: before.nanoseconds,
        cost_after: before.nanoseconds,
        before: before.clone(),
        after: before,
        ..Report::default()
    };
    let mut result = plain;
    if rewrites != Rewrites::Off
        && let Some(cheaper) = saturate::regions(&result, rewrites, model, &mut report)
    {
        result = cheaper;
    }
    report.milliseconds = start.elapsed().as_secs_f64() * 1e3;
    (result, report)
}
