//! Choosing one term for each class: the cheapest selection in which a shared value is paid
//! once.
//!
//! The price of a tree misses sharing, and a greedy pass over sets misses that several users
//! may agree on a value none of them would compute alone. So: start from both, improve one
//! root at a time while what the others use is free, one choice at a time, and by *sharing*:
//! switch all users of a value to it that do not lose if it were free, then pay for it once.

mod price;
mod search;
#[cfg(test)]
mod tests;

pub(super) use price::price;

use egg::{Id, Language};
use rustc_hash::FxHashMap;

use super::build::{Solution, Step};
use super::cost::{CostModel, Scratch, Work};
use super::facts::Terms;
use super::language::Term;

/// A term that a class can be computed by.
struct Choice {
    term: Term,
    work: Work,
    /// Classes of its operands, in order.
    operands: Vec<usize>,
}

/// The classes below some roots, with their choices.
pub(super) struct Table<'a> {
    eg: &'a Terms,
    model: &'a CostModel,
    ids: Vec<Id>,
    classes: Vec<Vec<Choice>>,
    users: Vec<Vec<usize>>,
    roots: Vec<usize>,
    scratch: Scratch,
    /// How many more nodes may be looked at before the search ends.
    fuel: usize,
}

/// A choice for each class; those that are not selected do not matter.
pub(super) type Choices = Vec<usize>;

/// No choice yet.
const NONE: usize = usize::MAX;

/// What the search may look at, in nodes.
const FUEL: usize = 1_500_000;

impl<'a> Table<'a> {
    pub(super) fn new(eg: &'a Terms, roots: &[Id], model: &'a CostModel) -> Table<'a> {
        let mut places: FxHashMap<Id, usize> = FxHashMap::default();
        let mut ids: Vec<Id> = Vec::new();
        let mut place = |id: Id, ids: &mut Vec<Id>| {
            *places.entry(id).or_insert_with(|| {
                ids.push(id);
                ids.len() - 1
            })
        };
        let roots: Vec<usize> = roots
            .iter()
            .map(|root| place(eg.find(*root), &mut ids))
            .collect();
        let mut classes: Vec<Vec<Choice>> = Vec::new();
        while classes.len() < ids.len() {
            let class = classes.len();
            let mut choices = Vec::new();
            for term in &eg[ids[class]].nodes {
                let operands: Vec<usize> = term
                    .children()
                    .iter()
                    .map(|child| place(eg.find(*child), &mut ids))
                    .collect();
                if !operands.contains(&class) {
                    choices.push(Choice {
                        work: price(eg, model, term),
                        term: term.clone(),
                        operands,
                    });
                }
            }
            classes.push(choices);
        }
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); classes.len()];
        for (class, choices) in classes.iter().enumerate() {
            for operand in choices.iter().flat_map(|choice| &choice.operands) {
                users[*operand].push(class);
            }
        }
        for users in &mut users {
            users.sort_unstable();
            users.dedup();
        }
        Table {
            eg,
            model,
            ids,
            classes,
            users,
            roots,
            scratch: Scratch::default(),
            fuel: FUEL,
        }
    }

    /// The selected classes, operands first; none when the selection is cyclic or lacks a
    /// choice.
    fn order(&self, choices: &[usize]) -> Option<Vec<usize>> {
        let mut state = vec![0u8; self.classes.len()];
        let mut order = Vec::new();
        for &root in &self.roots {
            if state[root] != 0 {
                continue;
            }
            state[root] = 1;
            let mut stack = vec![(root, 0)];
            while let Some((class, next)) = stack.pop() {
                let choice = self.classes[class].get(choices[class])?;
                match choice.operands.get(next) {
                    Some(&operand) => {
                        stack.push((class, next + 1));
                        match state[operand] {
                            0 => {
                                state[operand] = 1;
                                stack.push((operand, 0));
                            }
                            1 => return None,
                            _ => {}
                        }
                    }
                    None => {
                        state[class] = 2;
                        order.push(class);
                    }
                }
            }
        }
        Some(order)
    }

    /// The cost of a selection, infinite when it is none.
    fn total(&mut self, choices: &[usize]) -> f64 {
        let Some(order) = self.order(choices) else {
            self.fuel = self.fuel.saturating_sub(self.classes.len());
            return f64::INFINITY;
        };
        self.fuel = self
            .fuel
            .saturating_sub(order.len() + self.classes.len() / 8);
        let classes = &self.classes;
        let choice = |class: usize| &classes[class][choices[class]];
        let total = self.model.total(
            &order,
            &self.roots,
            |class| choice(class).work,
            |class| &choice(class).operands,
            &mut self.scratch,
        );
        // Of equals, the smaller.
        total.time + 1e-3 * order.len() as f64
    }

    /// The cheapest tree for each class.
    fn trees(&self) -> Choices {
        let count = self.classes.len();
        let (mut best, mut choices) = (vec![f64::INFINITY; count], vec![NONE; count]);
        loop {
            let mut changed = false;
            for class in (0..count).rev() {
                for (index, choice) in self.classes[class].iter().enumerate() {
                    let below: f64 = choice.operands.iter().map(|&of| best[of]).sum();
                    let time = choice.work.time + 1e-3 + below;
                    if time < best[class] * (1.0 - 1e-12) {
                        best[class] = time;
                        choices[class] = index;
                        changed = true;
                    }
                }
            }
            if !changed {
                return choices;
            }
        }
    }

    /// For each class the choice with the cheapest set of classes below it; those in `free`
    /// cost nothing.
    fn sets(&mut self, free: &[bool]) -> Choices {
        let count = self.classes.len();
        let words = count.div_ceil(64);
        let mut sets: Vec<Vec<u64>> = vec![Vec::new(); count];
        let (mut best, mut own) = (vec![f64::INFINITY; count], vec![0.0; count]);
        let mut choices = vec![NONE; count];
        let mut waiting = vec![true; count];
        let mut queue: std::collections::VecDeque<usize> = (0..count).rev().collect();
        let mut steps = 60 * count;
        let mut set = vec![0u64; words];
        while let Some(class) = queue.pop_front() {
            waiting[class] = false;
            if steps == 0 {
                break;
            }
            steps -= 1;
            let mut changed = false;
            for (index, choice) in self.classes[class].iter().enumerate() {
                self.fuel = self.fuel.saturating_sub(words / 4 + 1);
                if choice.operands.iter().any(|&of| best[of].is_infinite()) {
                    continue;
                }
                set.fill(0);
                for &operand in &choice.operands {
                    for (word, below) in set.iter_mut().zip(&sets[operand]) {
                        *word |= below;
                    }
                }
                if set[class / 64] >> (class % 64) & 1 == 1 {
                    continue;
                }
                let mine = if free[class] {
                    0.0
                } else {
                    choice.work.time + 1e-3
                };
                let time = mine + members(&set).map(|of| own[of]).sum::<f64>();
                if time < best[class] * (1.0 - 1e-9) || best[class].is_infinite() {
                    set[class / 64] |= 1 << (class % 64);
                    best[class] = time;
                    own[class] = mine;
                    choices[class] = index;
                    sets[class].clone_from(&set);
                    changed = true;
                }
            }
            if changed {
                for &user in &self.users[class] {
                    if !std::mem::replace(&mut waiting[user], true) {
                        queue.push_back(user);
                    }
                }
            }
        }
        choices
    }

    /// The selection a single greedy pass makes.
    pub(super) fn first(&mut self) -> Option<Choices> {
        let choices = self.sets(&vec![false; self.classes.len()]);
        self.order(&choices).map(|_| choices)
    }

    /// The selected terms in order.
    pub(super) fn solution(&self, choices: &[usize]) -> Option<Solution> {
        let order = self.order(choices)?;
        let mut places = vec![0; self.classes.len()];
        for (place, &class) in order.iter().enumerate() {
            places[class] = place;
        }
        let steps = order
            .iter()
            .map(|&class| {
                let choice = &self.classes[class][choices[class]];
                Step {
                    term: choice.term.clone(),
                    operands: choice.operands.iter().map(|&of| places[of]).collect(),
                    known: self.eg[self.ids[class]].data.clone(),
                    class: self.ids[class],
                    history: [].into(),
                }
            })
            .collect();
        Some(Solution {
            steps,
            roots: self.roots.iter().map(|&root| places[root]).collect(),
            ops: self.eg.analysis.ops.clone(),
        })
    }
}

/// The members of a set of bits.
fn members(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter().enumerate().flat_map(|(word, &bits)| {
        let mut bits = bits;
        std::iter::from_fn(move || {
            (bits != 0).then(|| {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                word * 64 + bit
            })
        })
    })
}
