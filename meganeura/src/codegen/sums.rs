//! Loops that combine many values without losing digits.
//!
//! Adding a small number to a large sum rounds it away; adding up short runs first keeps the
//! error near the square (or cube) root of what one long loop would make.

use super::body::Code;
use super::scalar::{Functions, combine, literal};
use crate::ir::Combine;

/// A partial result: the variable that holds it in the end, and how it comes about.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub variable: String,
    pub how: Combine,
}

/// A loop `for (var variable = first; variable < end; variable += step)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loop<'a> {
    pub variable: &'a str,
    pub first: &'a str,
    pub end: usize,
    pub step: usize,
}

impl Loop<'_> {
    fn rounds(self) -> usize {
        self.end.div_ceil(self.step)
    }

    /// How many loops are nested, and how often each but the outermost goes around.
    fn nesting(self) -> (u32, usize) {
        let rounds = self.rounds();
        let root = |depth: f64| (rounds as f64).powf(1.0 / depth).ceil() as usize;
        match rounds {
            0..=32 => (1, 1),
            33..=1024 => (2, root(2.0)),
            _ => (3, root(3.0)),
        }
    }

    /// How many rounds all loops together go around.
    pub fn total_rounds(self) -> usize {
        let (depth, inner) = self.nesting();
        (1..depth).fold(self.rounds(), |total, level| {
            total + self.rounds().div_ceil(inner.pow(level)) + 1
        })
    }
}

/// Write the loop; `body` writes what is done with one value, given the suffix of the
/// variables that it adds to. The parts' own variables are declared here.
pub(super) fn write(
    code: &mut Code,
    looped: Loop<'_>,
    parts: &[Part],
    lanes: usize,
    functions: &Functions,
    body: &dyn Fn(&mut Code, &str),
) {
    declare(code, parts, lanes, "");
    let (depth, inner) = if parts.is_empty() {
        (1, 1)
    } else {
        looped.nesting()
    };
    let step = looped.step * inner.pow(depth - 1);
    let end = format!("{}u", looped.end);
    level(
        code,
        looped,
        (depth, step, inner),
        (looped.first, &end, ""),
        parts,
        lanes,
        functions,
        body,
    );
}

fn declare(code: &mut Code, parts: &[Part], lanes: usize, suffix: &str) {
    for Part { variable, how } in parts {
        code.line(format!(
            "var {variable}{suffix} = {};",
            literal(how.identity(), lanes)
        ));
    }
}

#[allow(clippy::too_many_arguments)]
fn level(
    code: &mut Code,
    looped: Loop<'_>,
    (depth, step, inner): (u32, usize, usize),
    (first, end, suffix): (&str, &str, &str),
    parts: &[Part],
    lanes: usize,
    functions: &Functions,
    body: &dyn Fn(&mut Code, &str),
) {
    let variable = match depth {
        1 => looped.variable.to_owned(),
        _ => format!("start{depth}"),
    };
    let head = format!("for (var {variable} = {first}; {variable} < {end}; {variable} += {step}u)");
    code.block(head, |code| {
        if depth == 1 {
            return body(code, suffix);
        }
        let shorter = format!("_{depth}");
        declare(code, parts, lanes, &shorter);
        let end_here = format!("end{depth}");
        code.line(format!(
            "let {end_here} = min({variable} + {step}u, {}u);",
            looped.end
        ));
        let next = (depth - 1, step / inner, inner);
        level(
            code,
            looped,
            next,
            (&variable, &end_here, &shorter),
            parts,
            lanes,
            functions,
            body,
        );
        for Part { variable, how } in parts {
            let (sum, short) = (
                format!("{variable}{suffix}"),
                format!("{variable}{shorter}"),
            );
            let text = combine(*how, &sum, &short, lanes, functions);
            code.line(format!("{sum} = {text};"));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_loops_go_around_as_often_as_one() {
        for (end, step) in [
            (1, 1),
            (32, 1),
            (33, 1),
            (1024, 1),
            (1025, 1),
            (70_000, 3),
            (0, 1),
        ] {
            let looped = Loop {
                variable: "i",
                first: "0u",
                end,
                step,
            };
            let (depth, inner) = looped.nesting();
            let steps: Vec<usize> = (0..depth).map(|level| step * inner.pow(level)).collect();
            // What the written loops do, for each depth.
            let mut visited = Vec::new();
            let mut starts = vec![(0, end)];
            for &step in steps.iter().rev() {
                let split = |&(first, end): &(usize, usize)| {
                    (first..end)
                        .step_by(step)
                        .map(move |start| (start, end.min(start + step)))
                        .collect::<Vec<_>>()
                };
                starts = starts.iter().flat_map(split).collect();
            }
            visited.extend(starts.iter().map(|start| start.0));
            assert_eq!(visited, (0..end).step_by(step).collect::<Vec<_>>());
            assert!(looped.total_rounds() >= visited.len());
        }
    }
}
