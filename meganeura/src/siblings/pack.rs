//! The choice of products that become one.

use rustc_hash::FxHashMap;

use super::Group;
use super::rewrite::{Choice, Sites};
use crate::egraph::CostModel;
use crate::ir::Graph;

/// Both kinds of products, one kind, none.
const CHOICES: [Choice; 4] = [
    Choice {
        forward: true,
        gradient: true,
    },
    Choice {
        forward: false,
        gradient: true,
    },
    Choice {
        forward: true,
        gradient: false,
    },
    Choice {
        forward: false,
        gradient: false,
    },
];

/// The same graph over buffers that hold the variables of `groups`. Sibling products become one
/// where the graph then takes less time by the model.
pub fn pack(graph: &Graph, groups: &[Group], model: &CostModel) -> Graph {
    let sites = Sites::new(graph, groups);
    let classes = classes(&sites, groups);
    let mut choices = vec![CHOICES[0]; groups.len()];
    let cost = |choices: &[Choice]| {
        let graph = sites.rewritten(choices);
        let cost = model.estimate(&graph).nanoseconds;
        (graph, cost)
    };
    let mut best = cost(&choices);
    for members in classes {
        for choice in &CHOICES[1..] {
            let mut trial = choices.clone();
            for &member in &members {
                trial[member] = *choice;
            }
            let found = cost(&trial);
            if found.1 < best.1 {
                best = found;
                choices = trial;
            }
        }
    }
    best.0
}

/// The sets that have products, those of equal sizes together: repeated layers decide alike.
fn classes(sites: &Sites<'_>, groups: &[Group]) -> Vec<Vec<usize>> {
    let mut class_of: FxHashMap<Vec<usize>, usize> = FxHashMap::default();
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for (index, set) in sites.sets.iter().enumerate() {
        let Some(&end) = set.ends.first() else {
            continue;
        };
        let mut key = groups[index].lead.clone();
        key.extend(groups[index].pieces.iter().map(|piece| piece.size));
        key.extend(sites.alike.shape(end).dims());
        key.push(set.sums.len());
        let class = *class_of.entry(key).or_insert_with(|| {
            classes.push(Vec::new());
            classes.len() - 1
        });
        classes[class].push(index);
    }
    classes
}
