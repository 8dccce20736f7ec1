//! What an invocation does before, with, and after all it meets.

use super::operands::{Writer, dense};
use super::{Side, Sizes};
use crate::codegen::body::Code;
use crate::codegen::loops::outer_indices;
use crate::ir::DType;

impl Writer<'_> {
    /// The invocation's own rows, and zeros to add to.
    pub fn before(&self, code: &mut Code) {
        outer_indices(code, &self.kernel.batch, "batch", "i");
        self.load_own(code);
        if self.side == Side::Forward {
            // Lower than any score, and finite.
            code.line("var largest = -3.4e38f;");
            code.line("var sum = 0.0f;");
        }
        for total in self.totals() {
            let (name, real) = (total.name, self.real(total.width));
            for piece in 0..self.pieces(total.width) {
                code.line(format!("var {name}{piece} = {real}(0.0f);"));
            }
        }
    }

    /// The sum of products of two rows.
    fn dot(&self, code: &mut Code, name: &str, a: &str, b: &str, width: usize) {
        let pieces = self.pieces(width);
        code.line(format!("var {name}_parts = {a}0 * {b}0;"));
        for piece in 1..pieces {
            code.line(format!("{name}_parts += {a}{piece} * {b}{piece};"));
        }
        let parts = format!("{name}_parts");
        let sum = match self.real(width) {
            "f32" => parts,
            _ => format!("({parts}.x + {parts}.y) + ({parts}.z + {parts}.w)"),
        };
        code.line(format!("var {name} = {sum};"));
    }

    fn add(&self, code: &mut Code, to: &str, factor: &str, row: &str, width: usize) {
        for piece in 0..self.pieces(width) {
            code.line(format!("{to}{piece} += {factor} * {row}{piece};"));
        }
    }

    /// What a pair does.
    pub fn step(&self, code: &mut Code) {
        let kernel = self.kernel;
        self.dot(code, "score", "q", "k", kernel.width);
        code.line(format!("score *= {:?}f;", kernel.scale));
        if let Some(mask) = &kernel.mask {
            let (head, query, key) = match self.side {
                Side::Keys => ("other_head", "other", "own"),
                _ => ("head", "own", "other"),
            };
            let start = self.start(mask, 1, head, query);
            let index = format!("{start} + {key} * {}u", mask.column_stride);
            let value = self.memory.load(mask, &index);
            match mask.dtype {
                DType::F32 => code.line(format!("score += {value};")),
                _ => code.line(format!("if {value} == 0.0f {{ continue; }}")),
            }
        }
        match self.side {
            Side::Forward => {
                code.line("let most = max(largest, score);");
                code.line("let fade = exp(largest - most);");
                code.line("let weight = exp(score - most);");
                code.line("largest = most;");
                code.line("sum = sum * fade + weight;");
                for total in self.totals() {
                    let name = total.name;
                    for piece in 0..self.pieces(total.width) {
                        code.line(format!(
                            "{name}{piece} = {name}{piece} * fade + weight * v{piece};"
                        ));
                    }
                }
            }
            Side::Queries | Side::Keys => {
                code.line("let weight = exp(score - normalizer);");
                self.dot(code, "slope", "u", "v", kernel.value_width);
                code.line(format!(
                    "slope = weight * (slope - mean) * {:?}f;",
                    kernel.scale
                ));
                if self.side == Side::Queries {
                    self.add(code, "dq", "slope", "k", kernel.width);
                } else {
                    self.add(code, "dk", "slope", "q", kernel.width);
                    self.add(code, "dv", "weight", "u", kernel.value_width);
                }
            }
        }
    }

    /// The results.
    pub fn after(&self, code: &mut Code) {
        let Sizes { own, heads, .. } = self.sizes();
        code.line(format!(
            "let result = (batch * {own}u + own) * {heads}u + head;"
        ));
        let rounds = self.kernel.rounds;
        let totals = self.totals();
        let factor = match self.side {
            Side::Forward if !totals.is_empty() => {
                code.line("let factor = select(1.0f / sum, 0.0f, sum == 0.0f);");
                " * factor"
            }
            _ => "",
        };
        for total in totals {
            let Some(buffer) = total.buffer else {
                continue;
            };
            let pieces = self.pieces(total.width);
            for piece in 0..pieces {
                let index = format!("result * {pieces}u + {piece}u");
                let value = format!("{}{piece}{factor}", total.name);
                code.line(self.memory.store(&dense(buffer, rounds), &index, &value));
            }
        }
        if let Some(buffer) = self.normalizer() {
            let nothing = "bitcast<f32>(0x7f800000u)";
            let value = format!("select(largest + log(sum), {nothing}, sum == 0.0f)");
            code.line(self.memory.store(&dense(buffer, false), "result", &value));
        }
    }
}
