//! What else could be chosen for a product, and choices as text.

use super::choice::{Choice, Form, computed, costs};
use super::kernel::Kernels;
use super::problem::{Operand, Problem};
use super::split::{self, Grid, WIDEST};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// How many ways to cut a result are worth trying.
const GRIDS: usize = 8;

/// What is chosen apart from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::cpu) enum Matter {
    /// Which operands are copied, and whether the result is turned around.
    Way,
    /// How many columns are worked on at a time.
    Columns,
    /// How the result is cut among threads.
    Grid,
}

impl Matter {
    /// All there are, those first that others depend on.
    pub const ALL: [Matter; 3] = [Matter::Way, Matter::Columns, Matter::Grid];
}

impl Choice {
    /// What could be chosen instead, in one matter.
    pub(super) fn others(
        &self,
        matter: Matter,
        kernels: &Kernels,
        threads: usize,
        problem: &Problem<'_>,
        form: Form,
    ) -> Vec<Choice> {
        let all = match matter {
            Matter::Way => ways(kernels, threads, problem, form),
            Matter::Columns => self.columns(kernels, problem, form),
            Matter::Grid => self.grids(kernels, threads, problem, form),
        };
        let mut others: Vec<Choice> = Vec::new();
        for other in all {
            let other = other.within(kernels, problem, form);
            if other != *self && !others.contains(&other) {
                others.push(other);
            }
        }
        others
    }

    /// The same with other numbers of columns, where that cuts the widest part otherwise.
    fn columns(&self, kernels: &Kernels, problem: &Problem<'_>, form: Form) -> Vec<Choice> {
        let [_, n, _] = computed(self.turned, problem, form).size;
        let part = n.div_ceil(self.grid.columns);
        let blocks = |columns: usize| part.div_ceil(columns);
        let mut seen = BTreeSet::from([blocks(self.columns)]);
        let widths = (1..=WIDEST / kernels.panel()).rev();
        let widths = widths.map(|panels| panels * kernels.panel());
        let widths = widths.filter(|&columns| columns == WIDEST || seen.insert(blocks(columns)));
        let choices = widths.map(|columns| Choice { columns, ..*self });
        // Very narrow ones read all of the left operand again and again.
        choices.take(8).collect()
    }

    /// The same cut in other ways, those first that promise most.
    fn grids(
        &self,
        kernels: &Kernels,
        threads: usize,
        problem: &Problem<'_>,
        form: Form,
    ) -> Vec<Choice> {
        let computed = computed(self.turned, problem, form);
        let costs = costs(self.turned, kernels, &computed, form);
        let alone = Grid {
            rows: 1,
            columns: 1,
            row_by_row: true,
        };
        let mut grids: Vec<(f64, Grid)> = Vec::new();
        for grid in split::grids(kernels, threads, &costs).chain([alone]) {
            if grids.iter().all(|(_, other)| *other != grid) {
                grids.push((costs.estimate(kernels, threads, grid), grid));
            }
        }
        grids.sort_by(|left, right| left.0.total_cmp(&right.0));
        let grids = grids.into_iter().take(GRIDS);
        grids.map(|(_, grid)| Choice { grid, ..*self }).collect()
    }

    /// The nearest choice that makes sense for a problem: it may come from a file.
    pub(super) fn within(mut self, kernels: &Kernels, problem: &Problem<'_>, form: Form) -> Self {
        self.turned &= form.may_turn(problem);
        let problem = computed(self.turned, problem, form);
        let [m, n, _] = problem.size;
        for (copied, fixed) in self.copied.iter_mut().zip(fixed(kernels, &problem)) {
            *copied = fixed.unwrap_or(*copied);
        }
        let panel = kernels.panel();
        self.columns = (self.columns.min(WIDEST) / panel * panel).max(panel);
        let least = costs(self.turned, kernels, &problem, form).rows_at_least(kernels);
        let most = m.div_ceil(problem.row_unit).max(1);
        self.grid.rows = self.grid.rows.max(least).min(most);
        self.grid.columns = self.grid.columns.clamp(1, n.div_ceil(kernels.lanes).max(1));
        // Cut in one direction, parts come in one order.
        self.grid.row_by_row |= self.grid.rows == 1 || self.grid.columns == 1;
        self
    }
}

/// The operands of which layouts decide whether they are copied, as those are that are rounded.
fn fixed(kernels: &Kernels, problem: &Problem<'_>) -> [Option<bool>; 2] {
    if kernels.rounding.is_some() {
        return [Some(true); 2];
    }
    let strides = |operand: &Operand<'_>| match operand {
        Operand::Memory(matrix) => Some(matrix.strides),
        Operand::Computed { .. } => None,
    };
    let left = match strides(&problem.a) {
        Some([_, 1] | [1, _]) => None,
        _ => Some(true),
    };
    let right = match strides(&problem.b) {
        Some([_, 1]) => None,
        _ => Some(true),
    };
    [left, right]
}

/// Turned around or not, every operand copied or not, the rest by rules.
fn ways(kernels: &Kernels, threads: usize, problem: &Problem<'_>, form: Form) -> Vec<Choice> {
    let mut choices = Vec::new();
    for turned in [false, true] {
        let choice = Choice::if_turned(turned, kernels, threads, problem, form);
        for copied in [[false, false], [false, true], [true, false], [true, true]] {
            choices.push(Choice { copied, ..choice });
        }
    }
    choices
}

/// Which of two sides, as text: neither, one, the other, both.
const SIDES: [&str; 4] = ["none", "left", "right", "both"];

/// A statement about left and right, as text.
pub(in crate::runtime::cpu) fn sides_to_text([left, right]: [bool; 2]) -> &'static str {
    SIDES[usize::from(left) + 2 * usize::from(right)]
}

/// The statement that some text makes.
pub(in crate::runtime::cpu) fn sides_from_text(text: &str) -> Option<[bool; 2]> {
    let sides = SIDES.iter().position(|known| *known == text)?;
    Some([sides & 1 == 1, sides & 2 == 2])
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.turned { "turned" } else { "straight" };
        let copied = sides_to_text(self.copied);
        let Grid { rows, columns, .. } = self.grid;
        let first = if self.grid.row_by_row {
            "rows"
        } else {
            "columns"
        };
        write!(
            f,
            "{way} copied:{copied} width:{} parts:{rows}x{columns}:{first}",
            self.columns
        )
    }
}

/// The text is no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::cpu) struct NoChoice;

impl FromStr for Choice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        let mut words = text.split(' ');
        let mut word = |prefix: &str| {
            let word = words.next().and_then(|word| word.strip_prefix(prefix));
            word.ok_or(NoChoice)
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| NoChoice);
        let one_of = |text: &str, known: &[&str]| {
            let found = known.iter().position(|known| *known == text);
            found.ok_or(NoChoice)
        };
        let turned = one_of(word("")?, &["straight", "turned"])? == 1;
        let copied = sides_from_text(word("copied:")?).ok_or(NoChoice)?;
        let columns = number(word("width:")?)?;
        let parts: Vec<&str> = word("parts:")?.split([':', 'x']).collect();
        let [rows, part_columns, first] = parts[..] else {
            return Err(NoChoice);
        };
        let row_by_row = one_of(first, &["columns", "rows"])? == 1;
        let grid = Grid {
            rows: number(rows)?,
            columns: number(part_columns)?,
            row_by_row,
        };
        if words.next().is_some() {
            return Err(NoChoice);
        }
        Ok(Self {
            turned,
            copied,
            columns,
            grid,
        })
    }
}
