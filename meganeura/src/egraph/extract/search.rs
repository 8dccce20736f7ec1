//! Better selections from a first one, by moves.

use super::{Choices, Table};

/// The most classes that are little: a larger e-graph would take too long.
const LITTLE: usize = 24;

/// The most choices of which pairs are tried, and those of which three at once are.
const PAIRED: usize = 60;
const TRIED: usize = 30;

impl Table<'_> {
    /// The best selection found and its cost.
    pub(in crate::egraph) fn search(&mut self) -> Option<(Choices, f64)> {
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
}
