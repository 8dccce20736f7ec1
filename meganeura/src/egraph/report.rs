//! What an optimization did.

use std::collections::BTreeMap;
use std::fmt;

use super::cost::Estimate;
use super::explain::{Explanation, Origins};
use crate::ir::html::{Side, page};
use crate::ir::{Graph, NodeId};

/// How much each rule did and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How often each rule made two classes one.
    pub rules: BTreeMap<&'static str, usize>,
    /// Estimated nanoseconds of the graph as given.
    pub cost_before: f64,
    /// Estimated nanoseconds of the result.
    pub cost_after: f64,
    /// The estimate for the graph as given: kernels, bytes, and what they are made of.
    pub before: Estimate,
    /// The estimate for the result.
    pub after: Estimate,
    /// Regions of different structure, each optimized once.
    pub regions: usize,
    /// Their instances in the graph.
    pub instances: usize,
    /// The most nodes an e-graph held.
    pub nodes: usize,
    /// The most classes.
    pub classes: usize,
    /// Iterations over all e-graphs.
    pub iterations: usize,
    /// Time it took.
    pub milliseconds: f64,
    /// Why saturation ended, and how often for that reason.
    pub stopped: BTreeMap<&'static str, usize>,
    /// Regions left as they were, and why.
    pub kept: Vec<String>,
    pub(super) origins: Origins,
}

impl Report {
    /// The rules that led to a node of the result, from the term it was derived as; none where
    /// the node is as it was. Leaves of a term are named, other values of the given graph are
    /// `%`n, as [`Rewrites::Off`](super::Rewrites::Off) numbers them.
    pub fn explain(&self, node: NodeId) -> Option<Explanation> {
        self.origins.explain(node)
    }

    /// A page with the graph as given (as [`Rewrites::Off`](super::Rewrites::Off) leaves it)
    /// and the result beside it: pointing at a node tells the rules that led to it.
    pub fn to_html(&self, title: &str, given: &Graph, result: &Graph) -> String {
        let facts = |estimate: &Estimate| {
            vec![
                (
                    "estimated time".to_owned(),
                    format!("{:.3} ms", estimate.nanoseconds / 1e6),
                ),
                ("kernels".to_owned(), estimate.kernels.to_string()),
                (
                    "moved".to_owned(),
                    format!("{:.2} MB", estimate.bytes / 1e6),
                ),
                ("contractions".to_owned(), estimate.contractions.to_string()),
                ("passes over rows".to_owned(), estimate.passes.to_string()),
            ]
        };
        let note = |node: NodeId| Some(self.explain(node)?.to_string());
        let sides = [
            Side {
                title: "as derived".to_owned(),
                facts: facts(&self.before),
                graph: given,
                note: &|_| None,
            },
            Side {
                title: "as chosen".to_owned(),
                facts: facts(&self.after),
                graph: result,
                note: &note,
            },
        ];
        let words: Vec<(&str, usize)> = self.rules.iter().map(|(rule, n)| (*rule, *n)).collect();
        page(title, &words, &sides)
    }

    pub(super) fn stop(&mut self, why: &'static str) {
        *self.stopped.entry(why).or_default() += 1;
    }

    pub(super) fn fired(&mut self, rule: &'static str, times: usize) {
        if times > 0 {
            *self.rules.entry(rule).or_default() += times;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "estimated time   {:>10.1} µs before, {:.1} µs after",
            self.cost_before / 1e3,
            self.cost_after / 1e3
        )?;
        writeln!(
            f,
            "kernels          {:>10} before, {} after",
            self.before.kernels, self.after.kernels
        )?;
        writeln!(
            f,
            "megabytes moved  {:>10.3} before, {:.3} after",
            self.before.bytes / 1e6,
            self.after.bytes / 1e6
        )?;
        writeln!(
            f,
            "regions          {:>10} of {} instances",
            self.regions, self.instances
        )?;
        writeln!(
            f,
            "largest e-graph  {:>10} nodes in {} classes",
            self.nodes, self.classes
        )?;
        writeln!(
            f,
            "iterations       {:>10} in {:.1} ms",
            self.iterations, self.milliseconds
        )?;
        for (why, times) in &self.stopped {
            writeln!(f, "  stopped        {times:>10} × {why}")?;
        }
        for (rule, times) in &self.rules {
            writeln!(f, "  {rule:<15}{times:>10}")?;
        }
        for reason in &self.kept {
            writeln!(f, "kept as it was: {reason}")?;
        }
        Ok(())
    }
}
