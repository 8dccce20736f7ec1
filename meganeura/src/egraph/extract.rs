//! Choosing one term for each class: the cheapest selection in which a shared value is paid
//! once.
//!
//! The price of a tree misses sharing, and a greedy pass over sets misses that several users
//! may agree on a value none of them would compute alone. So: start from both, improve one
//! root at a time while what the others use is free, one choice at a time, and by *sharing*:
//! switch all users of a value to it that do not lose if it were free, then pay for it once.

#[cfg(test)]
mod tests;

use egg::{Id, Language};
use rustc_hash::FxHashMap;

use super::build::{Solution, Step};
use super::cost::{CostModel, Price, Role, Scratch, Work, turn};
use super::emit;
use super::facts::Terms;
use super::language::{Applied, Extents, Term};
use crate::ir::{Layout, Lowering};

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

/// The most classes that are little: a larger e-graph would take too long.
const LITTLE: usize = 24;

/// The most choices of which pairs are tried, and those of which three at once are.
const PAIRED: usize = 60;
const TRIED: usize = 30;

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

    /// The best selection found and its cost.
    pub(super) fn search(&mut self) -> Option<(Choices, f64)> {
        let mut best: Option<(Choices, f64)> = None;
        let starts = [self.sets(&vec![false; self.classes.len()]), self.trees()];
        for start in starts {
            let cost = self.total(&start);
            if cost.is_infinite() || best.as_ref().is_some_and(|best| best.0 == start) {
                continue;
            }
            let (choices, cost) = self.climb(start, cost);
            if best.as_ref().is_none_or(|best| cost < best.1) {
                best = Some((choices, cost));
            }
        }
        best
    }

    fn climb(&mut self, mut choices: Choices, mut cost: f64) -> (Choices, f64) {
        for _ in 0..6 {
            let before = cost;
            self.roots_anew(&mut choices, &mut cost);
            self.single_choices(&mut choices, &mut cost);
            self.shared_values(&mut choices, &mut cost);
            if cost >= before * (1.0 - 1e-9) {
                self.together(&mut choices, &mut cost);
            }
            if cost >= before * (1.0 - 1e-9) || self.fuel == 0 {
                break;
            }
        }
        (choices, cost)
    }

    /// Choose anew below one root, while what the others use is free.
    fn roots_anew(&mut self, choices: &mut Choices, cost: &mut f64) {
        if self.roots.len() < 2 || self.roots.len() > 24 {
            return;
        }
        for index in 0..self.roots.len() {
            if self.fuel == 0 {
                return;
            }
            let mut free = vec![false; self.classes.len()];
            for (other, &root) in self.roots.iter().enumerate() {
                if other != index {
                    self.mark(root, choices, &mut free);
                }
            }
            let greedy = self.sets(&free);
            let mut trial = choices.clone();
            let mut seen = free.clone();
            let mut stack = vec![self.roots[index]];
            while let Some(class) = stack.pop() {
                if !std::mem::replace(&mut seen[class], true) {
                    trial[class] = greedy[class];
                    if let Some(choice) = self.classes[class].get(trial[class]) {
                        stack.extend(&choice.operands);
                    }
                }
            }
            self.keep_if_better(choices, cost, trial);
        }
    }

    fn mark(&self, root: usize, choices: &[usize], seen: &mut [bool]) {
        let mut stack = vec![root];
        while let Some(class) = stack.pop() {
            if !std::mem::replace(&mut seen[class], true)
                && let Some(choice) = self.classes[class].get(choices[class])
            {
                stack.extend(&choice.operands);
            }
        }
    }

    fn keep_if_better(&mut self, choices: &mut Choices, cost: &mut f64, trial: Choices) {
        let total = self.total(&trial);
        if total < *cost * (1.0 - 1e-9) {
            *cost = total;
            *choices = trial;
        }
    }

    /// Change one choice at a time.
    fn single_choices(&mut self, choices: &mut Choices, cost: &mut f64) {
        loop {
            let before = *cost;
            let Some(order) = self.order(choices) else {
                return;
            };
            for &class in order.iter().rev() {
                for index in 0..self.classes[class].len() {
                    if self.fuel == 0 {
                        return;
                    }
                    let old = std::mem::replace(&mut choices[class], index);
                    if index == old {
                        continue;
                    }
                    let total = self.total(choices);
                    if total < *cost * (1.0 - 1e-9) {
                        *cost = total;
                    } else {
                        choices[class] = old;
                    }
                }
            }
            if *cost >= before * (1.0 - 1e-9) {
                return;
            }
        }
    }

    /// Change two or three choices at once, where all there is is little.
    fn together(&mut self, choices: &mut Choices, cost: &mut f64) {
        if self.classes.len() > LITTLE {
            return;
        }
        let Some(mut near) = self.order(choices) else {
            return;
        };
        for class in near.clone() {
            for choice in &self.classes[class] {
                near.extend(&choice.operands);
            }
        }
        near.sort_unstable();
        near.dedup();
        let moves: Vec<(usize, usize)> = near
            .into_iter()
            .flat_map(|class| (0..self.classes[class].len()).map(move |index| (class, index)))
            .filter(|&(class, index)| choices[class] != index)
            .collect();
        if moves.len() <= PAIRED && !self.several(choices, cost, &moves, 2) && moves.len() <= TRIED
        {
            self.several(choices, cost, &moves, 3);
        }
    }

    /// Make so many of the moves, if some so many lower the cost; whether they do.
    fn several(
        &mut self,
        choices: &mut Choices,
        cost: &mut f64,
        moves: &[(usize, usize)],
        count: usize,
    ) -> bool {
        for (place, &(class, index)) in moves.iter().enumerate() {
            let old = std::mem::replace(&mut choices[class], index);
            let better = match count {
                1 => {
                    let total = self.total(choices);
                    let better = total < *cost * (1.0 - 1e-9);
                    if better {
                        *cost = total;
                    }
                    better
                }
                _ => self.several(choices, cost, &moves[place + 1..], count - 1),
            };
            if better {
                return true;
            }
            choices[class] = old;
        }
        false
    }

    /// Let all users of a value that is not computed yet switch to it at once.
    fn shared_values(&mut self, choices: &mut Choices, cost: &mut f64) {
        let Some(order) = self.order(choices) else {
            return;
        };
        let mut selected = vec![false; self.classes.len()];
        for class in order {
            selected[class] = true;
        }
        for value in 0..self.classes.len() {
            if selected[value] || self.fuel == 0 {
                continue;
            }
            let users: Vec<usize> = self.users[value]
                .iter()
                .copied()
                .filter(|&user| selected[user])
                .collect();
            let Some(own) = self.classes[value].get(choices[value]) else {
                continue;
            };
            if users.len() < 2 {
                continue;
            }
            let price = own.work.time;
            let (mut trial, mut reached) = (choices.clone(), *cost);
            for user in users {
                for index in 0..self.classes[user].len() {
                    let uses = self.classes[user][index].operands.contains(&value);
                    if !uses || index == trial[user] {
                        continue;
                    }
                    let old = std::mem::replace(&mut trial[user], index);
                    let total = self.total(&trial) - price;
                    if total <= reached * (1.0 + 1e-9) {
                        reached = total;
                    } else {
                        trial[user] = old;
                    }
                }
            }
            self.keep_if_better(choices, cost, trial);
        }
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

/// Whether a view sees a row-major operand where it is.
fn strides_suffice(applied: &Applied) -> bool {
    match (applied.op.def.lowering, applied.operands.first()) {
        (Lowering::View(layout), Some(from)) => {
            let plain = Layout::contiguous(&from.shape);
            layout(&applied.op.attributes, &plain, &applied.result.shape).is_some()
        }
        _ => false,
    }
}

/// What a term adds to the cost.
pub(super) fn price(eg: &Terms, model: &CostModel, term: &Term) -> Work {
    let extents = |id: &Id| eg[*id].data.extents;
    let mut pricing = Price { model, time: 0.0 };
    let mut work = Work {
        role: Role::Elementwise,
        time: 0.0,
        elements: term
            .children()
            .iter()
            .fold(Extents::SCALAR, |all, id| all.join(&extents(id)))
            .elements(),
        reduced: 0.0,
        since: None,
    };
    match term {
        Term::Leaf(index) => {
            let leaf = &eg.analysis.leaves[*index as usize];
            work.role = Role::Leaf;
            work.elements = leaf.ty.shape.elements() as f64;
            work.since = leaf.since;
        }
        Term::Constant(_) => {
            work.role = Role::Number;
            work.elements = 1.0;
        }
        Term::Sum(coefficients, children) => {
            let mut constant = 0.0;
            let mut terms = Vec::new();
            for (c, child) in coefficients.iter().zip(children) {
                match eg[*child].data.constant {
                    Some(number) => constant += c.value() * number.value(),
                    None => terms.push((c.value(), extents(child))),
                }
            }
            emit::sum(&mut pricing, constant, terms);
        }
        Term::Product(halves, children) => {
            let factors = halves.iter().copied().zip(children.iter().map(extents));
            emit::product(&mut pricing, factors);
        }
        Term::Reduce(_, span, [child]) => {
            let rows = matches!(span[..], [(0, _)]);
            work.role = if rows {
                Role::RowReduction
            } else {
                Role::ColumnReduction
            };
            work.reduced = extents(child).elements();
            work.elements = super::normal::without(extents(child), span).elements();
            pricing.time = model.reduction(&extents(child), rows);
        }
        Term::Rename(sources, _) => work.role = turn(sources),
        Term::Contract(k, [left, right]) => {
            let (mut a, mut b) = (extents(left), extents(right));
            let (left, right) = (a.elements(), b.elements());
            a.set(0, 1);
            b.set(1, 1);
            work.role = Role::Contraction;
            work.elements = a.join(&b).elements();
            pricing.time = model.contraction(left, right, work.elements, f64::from(*k));
        }
        Term::Apply(op, children) => {
            let applied = &eg.analysis.ops[*op as usize];
            if let Some(scalar) = eg.analysis.scalar(*op) {
                let all = children
                    .iter()
                    .fold(Extents::SCALAR, |all, id| all.join(&extents(id)));
                pricing.time = model.elementwise(scalar, &all);
            } else {
                work.elements = applied.result.shape.elements() as f64;
                match applied.op.def.lowering {
                    Lowering::Index | Lowering::Constant => work.role = Role::Number,
                    Lowering::View(_) if applied.reshape || strides_suffice(applied) => {
                        let from = &applied.operands[0].shape;
                        work.role = match applied.result.shape.elements() < from.elements() {
                            true => Role::Turn,
                            false => Role::View,
                        };
                    }
                    _ => {
                        let read: f64 = children.iter().map(|id| extents(id).elements()).sum();
                        work.role = Role::Memory;
                        pricing.time = model.memory(work.elements + read);
                    }
                }
            }
        }
    }
    work.time = pricing.time;
    work
}
