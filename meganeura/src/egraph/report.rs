//! What an optimization did.

use std::collections::BTreeMap;
use std::fmt;

/// How much each rule did and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How often each rule made two classes one.
    pub rules: BTreeMap<&'static str, usize>,
    /// Estimated nanoseconds of the graph as given.
    pub cost_before: f64,
    /// Estimated nanoseconds of the result.
    pub cost_after: f64,
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
}

impl Report {
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
