//! Why a term stands where it does: the rules that lead to it from the term that was derived.
//!
//! Each union that a rule makes is logged with the nodes it came from and led to. Once terms
//! are chosen, the shortest chain of logged rewrites from what a class first held to what was
//! chosen explains the choice. When an e-graph starts afresh from chosen terms, their chains
//! go along.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use egg::{Id, Language};
use rustc_hash::{FxHashMap, FxHashSet};

use super::build::Solution;
use super::facts::Terms;
use super::language::{Coefficient, NO_AXIS, Term};
use crate::ir::{Combine, NodeId};

/// One rewrite on the way from a derived term to the chosen one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The rule.
    pub rule: &'static str,
    /// The term it saw.
    pub before: String,
    /// The equal term it gave.
    pub after: String,
}

/// The rewrites that led to a node, first to last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation(pub Vec<Change>);

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = "";
        for change in &self.0 {
            if change.before != shown {
                writeln!(f, "{}", change.before)?;
            }
            writeln!(f, "  = {}    ({})", change.after, change.rule)?;
            shown = &change.after;
        }
        Ok(())
    }
}

/// A rewrite as it was logged.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub rule: &'static str,
    pub class: Id,
    pub from: Term,
    pub to: Vec<Term>,
}

/// The rewrites that led to a term.
pub(super) type History = Arc<[Change]>;

/// What an e-graph started from.
pub(super) struct Chronicle {
    originals: Vec<(Id, Term)>,
    histories: Vec<(Id, History)>,
}

impl Chronicle {
    /// Of an e-graph no rule has been applied to, whose classes have these histories.
    pub(super) fn new(eg: &Terms, histories: Vec<(Id, History)>) -> Chronicle {
        let originals = eg
            .classes()
            .flat_map(|class| class.nodes.iter().map(|node| (class.id, node.clone())))
            .collect();
        Chronicle {
            originals,
            histories,
        }
    }

    /// Tell each step of a solution how it came about.
    pub(super) fn annotate(&self, eg: &Terms, solution: &mut Solution) {
        let originals = self.originals(eg);
        let wanted: FxHashSet<Id> = solution
            .steps
            .iter()
            .map(|step| eg.find(step.class))
            .collect();
        let mut rewrites: FxHashMap<Id, Vec<&Made>> = FxHashMap::default();
        for made in &eg.analysis.log {
            let class = eg.find(made.class);
            if wanted.contains(&class) {
                rewrites.entry(class).or_default().push(made);
            }
        }
        let mut inherited: FxHashMap<Id, &History> = FxHashMap::default();
        for (class, history) in &self.histories {
            let known = inherited.entry(eg.find(*class)).or_insert(history);
            if known.is_empty() {
                *known = history;
            }
        }
        let show = Show {
            eg,
            originals: &originals,
        };
        let mut fresh = vec![false; solution.steps.len()];
        for (index, step) in solution.steps.iter_mut().enumerate() {
            let class = eg.find(step.class);
            let before: &[Change] = inherited.get(&class).map_or(&[], |history| history);
            let Some(first) = originals.get(&class) else {
                fresh[index] = true;
                continue;
            };
            let target = canonical(eg, &step.term);
            let logged = rewrites.get(&class).map_or(&[][..], |made| made);
            let path = path(eg, first, logged, &target);
            let changes = path.iter().map(|(rule, from, to)| Change {
                rule,
                before: show.term(from, 3),
                after: show.term(to, 3),
            });
            step.history = before.iter().cloned().chain(changes).collect();
        }
        share_with_operands(solution, &fresh);
    }

    /// The terms each class held at first.
    fn originals(&self, eg: &Terms) -> FxHashMap<Id, Vec<Term>> {
        let mut originals: FxHashMap<Id, Vec<Term>> = FxHashMap::default();
        for (class, term) in &self.originals {
            let terms = originals.entry(eg.find(*class)).or_default();
            terms.push(canonical(eg, term));
        }
        originals
    }
}

/// One step of rewriting a term, as text.
pub(super) fn change(eg: &Terms, rule: &'static str, from: &Term, to: Id) -> Change {
    let show = Show {
        eg,
        originals: &FxHashMap::default(),
    };
    Change {
        rule,
        before: show.term(from, 3),
        after: show.class(to, 4).0,
    }
}

/// Tell each step of a solution by which changes its class was come to.
pub(super) fn annotate_with(
    solution: &mut Solution,
    eg: &Terms,
    histories: Vec<(Id, Vec<Change>)>,
) {
    let mut known: FxHashMap<Id, History> = FxHashMap::default();
    for (class, history) in histories {
        known.entry(eg.find(class)).or_insert(history.into());
    }
    let mut fresh = vec![false; solution.steps.len()];
    for (step, fresh) in solution.steps.iter_mut().zip(&mut fresh) {
        match known.get(&eg.find(step.class)) {
            Some(history) => step.history = history.clone(),
            None => *fresh = true,
        }
    }
    share_with_operands(solution, &fresh);
}

/// What was not there before was made for the sake of who uses it.
fn share_with_operands(solution: &mut Solution, fresh: &[bool]) {
    for index in (0..solution.steps.len()).rev() {
        let history = solution.steps[index].history.clone();
        for operand in solution.steps[index].operands.clone() {
            if fresh[operand] && solution.steps[operand].history.is_empty() {
                solution.steps[operand].history = history.clone();
            }
        }
    }
}

fn canonical(eg: &Terms, term: &Term) -> Term {
    term.clone().map_children(|child| eg.find(child))
}

type Rewritten = (&'static str, Term, Term);

/// The shortest chain of rewrites from one of the first terms to the target.
fn path(eg: &Terms, first: &[Term], logged: &[&Made], target: &Term) -> Vec<Rewritten> {
    if first.contains(target) || logged.is_empty() {
        return Vec::new();
    }
    let edges: Vec<(&'static str, Term, Vec<Term>)> = logged
        .iter()
        .map(|made| {
            let to = made.to.iter().map(|term| canonical(eg, term)).collect();
            (made.rule, canonical(eg, &made.from), to)
        })
        .collect();
    let mut came: FxHashMap<Term, Option<Rewritten>> =
        first.iter().map(|term| (term.clone(), None)).collect();
    let mut queue: VecDeque<Term> = first.iter().cloned().collect();
    while let Some(term) = queue.pop_front() {
        if term == *target {
            break;
        }
        for (rule, from, to) in &edges {
            // An equality is one both ways.
            let forth = *from == term;
            if !forth && !to.contains(&term) {
                continue;
            }
            let next = if forth {
                to.as_slice()
            } else {
                std::slice::from_ref(from)
            };
            for next in next {
                if !came.contains_key(next) {
                    came.insert(next.clone(), Some((rule, term.clone(), next.clone())));
                    queue.push_back(next.clone());
                }
            }
        }
    }
    let mut path = Vec::new();
    let mut at = target.clone();
    while let Some(Some(step)) = came.get(&at) {
        path.push(step.clone());
        at = step.1.clone();
    }
    path.reverse();
    path
}

/// Terms as text, a few levels deep.
struct Show<'a> {
    eg: &'a Terms,
    originals: &'a FxHashMap<Id, Vec<Term>>,
}

/// How tightly a term's text holds together: what binds less is put in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    Sum,
    Contraction,
    Product,
    Atom,
}

impl Show<'_> {
    fn class(&self, class: Id, depth: usize) -> (String, Hold) {
        let class = self.eg.find(class);
        if let Some(value) = self.eg[class].data.constant {
            return (format!("{value:?}"), Hold::Atom);
        }
        let original = self.originals.get(&class).and_then(|terms| terms.first());
        match original.or_else(|| self.eg[class].nodes.first()) {
            Some(Term::Leaf(index)) => (leaf_mark(*index), Hold::Atom),
            Some(term) if depth > 0 => self.held(term, depth - 1),
            _ => ("…".to_owned(), Hold::Atom),
        }
    }

    /// An operand, in parentheses where it holds together less than it must.
    fn operand(&self, class: Id, depth: usize, least: Hold) -> String {
        match self.class(class, depth) {
            (text, hold) if hold < least => format!("({text})"),
            (text, _) => text,
        }
    }

    fn term(&self, term: &Term, depth: usize) -> String {
        self.held(term, depth).0
    }

    fn held(&self, term: &Term, depth: usize) -> (String, Hold) {
        match term {
            Term::Leaf(index) => (leaf_mark(*index), Hold::Atom),
            Term::Constant(value) => (format!("{value:?}"), Hold::Atom),
            Term::Sum(coefficients, children) => self.sum(coefficients, children, depth),
            Term::Product(halves, children) => {
                (self.product(halves, children, depth), Hold::Product)
            }
            Term::Reduce(combine, span, [child]) => {
                let name = match combine {
                    Combine::Sum => "Σ",
                    Combine::Maximum => "largest",
                };
                let axes = axes(span.iter().map(|(axis, _)| *axis));
                (
                    format!("{name}[{axes}]({})", self.class(*child, depth).0),
                    Hold::Atom,
                )
            }
            Term::Rename(sources, [child]) => match sources[..] {
                [1, 0] => (
                    format!("{}ᵀ", self.operand(*child, depth, Hold::Atom)),
                    Hold::Atom,
                ),
                _ => {
                    let axes = axes(sources.iter().rev().copied());
                    (
                        format!("axes[{axes}]({})", self.class(*child, depth).0),
                        Hold::Atom,
                    )
                }
            },
            Term::Contract(_, operands) => {
                let [left, right] = operands.map(|of| self.operand(of, depth, Hold::Atom));
                (format!("{left} @ {right}"), Hold::Contraction)
            }
            Term::Apply(op, children) => {
                let operands = children.iter().map(|child| self.class(*child, depth).0);
                let operands: Vec<String> = operands.collect();
                let name = self.eg.analysis.ops[*op as usize].op.def.name;
                (format!("{name}({})", operands.join(", ")), Hold::Atom)
            }
        }
    }

    fn sum(&self, coefficients: &[Coefficient], children: &[Id], depth: usize) -> (String, Hold) {
        let mut text = String::new();
        for (c, child) in coefficients.iter().zip(children) {
            let c = c.value();
            let least = match c.abs() == 1.0 {
                true => Hold::Contraction,
                false => Hold::Product,
            };
            let value = self.operand(*child, depth, least);
            text += match (text.is_empty(), c < 0.0) {
                (true, true) => "−",
                (true, false) => "",
                (false, true) => " − ",
                (false, false) => " + ",
            };
            if c.abs() != 1.0 {
                text += &format!("{}·", c.abs());
            }
            text += &value;
        }
        let hold = match children.len() {
            1 => Hold::Product,
            _ => Hold::Sum,
        };
        (text, hold)
    }

    fn product(&self, halves: &[i16], children: &[Id], depth: usize) -> String {
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (&half, child) in halves.iter().zip(children) {
            let text = self.operand(*child, depth, Hold::Atom);
            let power = match half.abs() {
                1 => format!("√{text}"),
                2 => text,
                4 => format!("{text}²"),
                other => format!("{text}^{}", f64::from(other) / 2.0),
            };
            if half > 0 { &mut above } else { &mut below }.push(power);
        }
        let above = match above.is_empty() {
            true => "1".to_owned(),
            false => above.join("·"),
        };
        match below[..] {
            [] => above,
            [ref below] => format!("{above}/{below}"),
            _ => format!("{above}/({})", below.join("·")),
        }
    }
}

/// Axes counted from the last, as −1, −2 …
fn axes(of: impl Iterator<Item = u8>) -> String {
    let names = of.map(|axis| match axis {
        NO_AXIS => "1".to_owned(),
        axis => format!("-{}", axis + 1),
    });
    names.collect::<Vec<String>>().join(",")
}

/// Stands for a leaf of a region until it is known which instance is meant.
fn leaf_mark(index: u32) -> String {
    format!("\u{2}{index}\u{3}")
}

/// How the nodes of a result came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Origins {
    nodes: BTreeMap<usize, (History, Arc<[String]>)>,
}

impl Origins {
    /// Note a node's history, with names for the leaves of its region.
    pub(super) fn note(&mut self, node: NodeId, history: &History, leaves: &Arc<[String]>) {
        if !history.is_empty() {
            let origin = (history.clone(), leaves.clone());
            self.nodes.entry(node.index()).or_insert(origin);
        }
    }

    pub(super) fn explain(&self, node: NodeId) -> Option<Explanation> {
        let (history, leaves) = self.nodes.get(&node.index())?;
        let named = |text: &str| {
            let mut result = String::new();
            let mut rest = text;
            while let Some((before, marked)) = rest.split_once('\u{2}') {
                let (index, after) = marked.split_once('\u{3}').unwrap_or((marked, ""));
                let leaf = index
                    .parse()
                    .ok()
                    .and_then(|index: usize| leaves.get(index));
                result += before;
                result += leaf.map_or("?", |leaf| leaf);
                rest = after;
            }
            result + rest
        };
        let changes = history.iter().map(|change| Change {
            rule: change.rule,
            before: named(&change.before),
            after: named(&change.after),
        });
        Some(Explanation(changes.collect()))
    }
}
