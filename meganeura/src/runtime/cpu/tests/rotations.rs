//! Pairs of all heads rotated by the sines and cosines of their token: rows of heads are joined as far as
//! a tile has room, with what they share repeated. Pairs side by side, and halves of a head apart.

use super::super::vector::InstructionSet;
use super::{Buffers, access, load, oracle, run_with};
use crate::ir::ScalarOp;
use crate::schedule::kernel::{
    Access, Action, Body, BufferId, Instruction, LoopKernel, Program, Store, ValueId,
};

const TOKENS: [usize; 2] = [2, 9];

/// What is rotated.
#[derive(Clone, Copy, Debug)]
struct Case {
    heads: usize,
    /// Pairs of a head.
    pairs: usize,
    /// Whether numbers of a pair are neighbours.
    interleaved: bool,
    /// How many times all heads lie one after the other in a token's row.
    parts: usize,
    /// Floats around them in the row.
    margin: usize,
    /// Whether results go where the operands are.
    in_place: bool,
}

impl Case {
    fn kernel(&self) -> (Action, Buffers) {
        let (head, outer) = (2 * self.pairs, [TOKENS[0], TOKENS[1], self.heads]);
        let row = self.parts * self.heads * head + 2 * self.margin;
        let elements = TOKENS[0] * TOKENS[1] * row;
        let mut buffers = Buffers::default();
        let values: Vec<f32> = (0..elements).map(|i| (i % 83) as f32 / 9.0).collect();
        let input = buffers.floats(&values);
        let table: Vec<f32> = (0..TOKENS[1] * self.pairs)
            .map(|i| (i as f32 * 0.7).sin())
            .collect();
        let tables = [0, 1].map(|shift| {
            let shifted = table.iter().cycle().skip(shift).take(table.len());
            buffers.floats(&shifted.copied().collect::<Vec<f32>>())
        });
        let output = match self.in_place {
            true => input,
            false => buffers.empty(elements),
        };
        let place = |buffer: BufferId, part: usize, which: usize| Access {
            offset: self.margin
                + part * self.heads * head
                + which * if self.interleaved { 1 } else { self.pairs },
            ..access(
                buffer,
                &[TOKENS[1] * row, row, head],
                if self.interleaved { 2 } else { 1 },
            )
        };
        let mut body = Body::default();
        for part in 0..self.parts {
            let operands = [0, 1].map(|which| place(input, part, which));
            let results = rotate(&mut body.program, operands, tables, self.pairs);
            let stores = results.into_iter().enumerate();
            body.stores.extend(stores.map(|(which, value)| Store {
                value,
                access: place(output, part, which),
            }));
        }
        let action = Action::Loop(LoopKernel {
            outer: outer.to_vec(),
            columns: self.pairs,
            body,
        });
        (action, buffers)
    }
}

/// Both numbers of each pair, rotated.
fn rotate(
    program: &mut Program,
    operands: [Access; 2],
    tables: [BufferId; 2],
    pairs: usize,
) -> [ValueId; 2] {
    let mut push = |instruction| program.push(instruction);
    let [a, b] = operands.map(|access| push(Instruction::Load(access)));
    let [c, s] = tables.map(|table| push(load(table, &[0, pairs, 0], 1)));
    let mut scalar = |op, x, y| push(Instruction::Scalar(op, vec![x, y]));
    let all = [(a, c), (b, s), (a, s), (b, c)].map(|(x, y)| scalar(ScalarOp::Multiply, x, y));
    let first = scalar(ScalarOp::Subtract, all[0], all[1]);
    [first, scalar(ScalarOp::Add, all[2], all[3])]
}

/// On every instruction set what the interpreter gives in double precision, and the same bits.
fn check(case: Case) {
    let (action, buffers) = case.kernel();
    let expected = oracle::run(&action, &buffers);
    let mut all = Vec::new();
    for set in InstructionSet::available() {
        let after = run_with(&action, &buffers, 2, set).expect("sound");
        if let Err(difference) = oracle::compare(&expected, &buffers, &after) {
            panic!("{set:?}, {case:?}: {difference}");
        }
        let alone = run_with(&action, &buffers, 1, set).expect("sound");
        assert_eq!(alone, after, "{set:?}, {case:?}");
        all.push(after);
    }
    assert!(all.windows(2).all(|two| two[0] == two[1]), "{case:?}");
}

#[test]
fn rotated_heads_of_every_width() {
    // Joined rows that are whole turns of their table in vectors, and others; too long, too few.
    let sizes = [
        (6, 24),
        (3, 8),
        (12, 64),
        (7, 128),
        (1, 5),
        (11, 33),
        (2, 300),
        (10, 16),
        (7, 32),
        (9, 20),
        (8, 20),
        (23, 9),
        (3, 48),
        (5, 1),
        (300, 1),
        (2, 65),
    ];
    for (heads, pairs) in sizes {
        for interleaved in [true, false] {
            check(Case {
                heads,
                pairs,
                interleaved,
                parts: 1,
                margin: 0,
                in_place: false,
            });
        }
    }
}

/// Queries and keys, say, of rows that have something else around them, to where such rows are, too.
#[test]
fn rotated_parts_of_rows() {
    for (heads, pairs) in [(6, 24), (3, 8), (11, 33), (8, 20), (2, 300), (7, 32)] {
        for interleaved in [true, false] {
            for (parts, in_place) in [(2, false), (3, false), (1, true), (2, true)] {
                check(Case {
                    heads,
                    pairs,
                    interleaved,
                    parts,
                    margin: 3,
                    in_place,
                });
            }
        }
    }
}
