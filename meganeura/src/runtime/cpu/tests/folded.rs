//! Weights' gradients whose depth is folded: right, and the same for any number of threads.

use super::contractions::{copy, loaded, values};
use super::{Buffers, access, dense, load, oracle, run_all};
use crate::ir::{Combine, Precision, ScalarOp};
use crate::runtime::cpu::depth;
use crate::runtime::cpu::vector::InstructionSet;
use crate::schedule::kernel::{
    Accumulate, Action, Body, BufferId, ContractKernel, Instruction, Program, Store, ValueId,
};

/// Rows and columns that no register divides, depths that halves do not, and halves of more than
/// one block.
const SIZES: [[usize; 3]; 3] = [[96, 60, 401], [49, 131, 401], [64, 50, 1101]];

/// A gradient `xᵀ·g` of operands that other kernels write.
struct Gradient {
    buffers: Buffers,
    kernel: ContractKernel,
    /// Where the operands come from and go to.
    copies: [[BufferId; 2]; 2],
    result: BufferId,
}

impl Gradient {
    fn new([m, n, k]: [usize; 3]) -> Gradient {
        let mut buffers = Buffers::default();
        let mut copy_of = |elements: usize| {
            let from = buffers.floats(&values(elements));
            [from, buffers.empty(elements)]
        };
        let copies = [copy_of(k * m), copy_of(k * n)];
        let result = buffers.floats(&values(m * n));
        let mut program = Program::default();
        let value = program.push(Instruction::Accumulator);
        let kernel = ContractKernel {
            batch: Vec::new(),
            m: vec![m],
            n: vec![n],
            k: vec![k],
            left: loaded(access(copies[0][1], &[1], m)),
            right: loaded(dense(copies[1][1], &[k], n)),
            epilogue: Body {
                program,
                stores: vec![Store {
                    value,
                    access: dense(result, &[m], n),
                }],
                accumulates: Vec::new(),
            },
            precision: Precision::F32,
        };
        Gradient {
            buffers,
            kernel,
            copies,
            result,
        }
    }

    /// Holds the product to the oracle with one thread, and more threads to the same bits.
    fn check(&self, precisions: &[Precision]) {
        let written = |buffer| self.copies.iter().any(|&[_, to]| to == buffer);
        assert!(depth::folds(&self.kernel, &written), "it is folded");
        assert!(
            !depth::folds(&self.kernel, &|_| false),
            "nothing is written"
        );
        let [left, right] = self.copies;
        let [m, n, k] = [
            self.kernel.rows(),
            self.kernel.columns(),
            self.kernel.depth(),
        ];
        for precision in precisions {
            let product = Action::Contract(ContractKernel {
                precision: *precision,
                ..self.kernel.clone()
            });
            let mut before = self.buffers.clone();
            for [from, to] in self.copies {
                before.0[to.index()] = before.0[from.index()].clone();
            }
            let expected = oracle::run(&product, &before);
            let actions = [copy(left, k * m), copy(right, k * n), product];
            let set = InstructionSet::detect();
            let run = |threads| run_all(&actions, &self.buffers, threads, set).expect("sound");
            let one = run(1);
            if let Err(difference) = oracle::compare(&expected, &before, &one) {
                panic!("{m} × {n} × {k}, {precision:?}: {difference}");
            }
            for threads in 2..6 {
                assert!(
                    one == run(threads),
                    "{m} × {n} × {k}, {precision:?}: other results with {threads} threads"
                );
            }
        }
    }
}

#[test]
fn gradients_that_are_stored() {
    for size @ [m, ..] in SIZES {
        let mut gradient = Gradient::new(size);
        gradient.check(&[Precision::F32, Precision::BF16]);
        // As the transpose.
        let result = gradient.result;
        gradient.kernel.epilogue.stores[0].access = access(result, &[1], m);
        gradient.check(&[Precision::F32]);
    }
}

#[test]
fn updates_in_place_and_sums_of_columns() {
    for size @ [m, n, _] in SIZES {
        let mut gradient = Gradient::new(size);
        let total = gradient.buffers.empty(n);
        let mut program = Program::default();
        let product = program.push(Instruction::Accumulator);
        let old = program.push(load(gradient.result, &[n], 1));
        let rate = program.push(Instruction::Constant(0.01));
        let step = program.push(Instruction::Scalar(ScalarOp::Multiply, vec![product, rate]));
        let value = program.push(Instruction::Scalar(ScalarOp::Subtract, vec![old, step]));
        gradient.kernel.epilogue = Body {
            program,
            stores: vec![Store {
                value,
                access: dense(gradient.result, &[m], n),
            }],
            accumulates: Vec::new(),
        };
        gradient.check(&[Precision::F32]);
        gradient.kernel.epilogue.accumulates = vec![Accumulate {
            combine: Combine::Sum,
            value: ValueId(0),
            access: access(total, &[0], 1),
        }];
        gradient.check(&[Precision::F32]);
    }
}
