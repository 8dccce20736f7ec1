//! Contractions over several axes: convolutions in all directions against direct ones.

use super::{Buffers, run_with};
use crate::ir::{DType, Precision};
use crate::runtime::cpu::vector::InstructionSet;
use crate::schedule::kernel::{
    Access, Action, Body, BufferId, ContractKernel, Instruction, Operand, Program, Store,
};

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

/// An access with strides over all axes, the last included.
fn access(buffer: BufferId, offset: usize, strides: &[usize]) -> Access {
    let (column_stride, strides) = strides.split_last().expect("an axis");
    Access {
        buffer,
        dtype: DType::F32,
        offset,
        strides: strides.to_vec(),
        column_stride: *column_stride,
    }
}

fn loaded(access: Access) -> Operand {
    let mut program = Program::default();
    let value = program.push(Instruction::Load(access));
    Operand { program, value }
}

fn stored(access: Access) -> Body {
    let mut body = Body::default();
    let value = body.program.push(Instruction::Accumulator);
    body.stores.push(Store { value, access });
    body
}

/// A convolution without padding, over images `[images, groups · channels, height, width]`.
#[derive(Clone, Copy, Debug)]
struct Convolution {
    images: usize,
    groups: usize,
    /// Of a group.
    channels: usize,
    /// Of a group.
    outputs: usize,
    image: [usize; 2],
    window: [usize; 2],
    step: usize,
    dilation: usize,
}

impl Convolution {
    fn places(&self) -> [usize; 2] {
        let places = |axis: usize| {
            (self.image[axis] - (self.window[axis] - 1) * self.dilation - 1) / self.step + 1
        };
        [places(0), places(1)]
    }

    /// Strides of windows: image, group, channel, the window's rows and columns, and the
    /// places' rows and columns.
    fn strides(&self) -> [usize; 7] {
        let [height, width] = self.image;
        let plane = height * width;
        let [row, column] = [width * self.dilation, self.dilation];
        let group = self.channels * plane;
        [
            self.groups * group,
            group,
            plane,
            row,
            column,
            width * self.step,
            self.step,
        ]
    }

    fn count(&self) -> usize {
        self.places().iter().product()
    }

    fn weight_elements(&self) -> usize {
        self.groups * self.outputs * self.channels * self.window[0] * self.window[1]
    }

    fn inputs(&self) -> usize {
        self.images * self.groups * self.channels * self.image[0] * self.image[1]
    }

    fn results(&self) -> usize {
        self.images * self.groups * self.outputs * self.count()
    }

    /// Calls a function with every term of the sum: indices of input, weight and output.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let [
            s_image,
            s_group,
            s_channel,
            s_row,
            s_column,
            s_down,
            s_across,
        ] = self.strides();
        let [down, across] = self.places();
        for image in 0..self.images {
            for group in 0..self.groups {
                for output in 0..self.outputs {
                    for y in 0..down {
                        for x in 0..across {
                            let output = (image * self.groups + group) * self.outputs + output;
                            let result = (output * down + y) * across + x;
                            let output = output % (self.groups * self.outputs);
                            for channel in 0..self.channels {
                                for i in 0..self.window[0] {
                                    for j in 0..self.window[1] {
                                        let input = image * s_image
                                            + group * s_group
                                            + channel * s_channel
                                            + i * s_row
                                            + j * s_column
                                            + y * s_down
                                            + x * s_across;
                                        let weight = ((output * self.channels + channel)
                                            * self.window[0]
                                            + i)
                                            * self.window[1]
                                            + j;
                                        f(input, weight, result);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn depth(&self) -> Vec<usize> {
        vec![self.channels, self.window[0], self.window[1]]
    }

    /// The forward kernel and what it must leave in its output.
    fn forward(&self, buffers: &mut Buffers) -> (ContractKernel, BufferId, Vec<f64>) {
        let (x, w) = (values(self.inputs(), 1), values(self.weight_elements(), 2));
        let mut expected = vec![0.0; self.results()];
        self.each(|i, j, o| expected[o] += f64::from(x[i]) * f64::from(w[j]));
        let (x, w) = (buffers.floats(&x), buffers.floats(&w));
        let output = buffers.empty(self.results());
        let [
            s_image,
            s_group,
            s_channel,
            s_row,
            s_column,
            s_down,
            s_across,
        ] = self.strides();
        let (k, places) = (self.depth().iter().product::<usize>(), self.count());
        let weight = [0, self.outputs * k, k, k / self.channels, self.window[1], 1];
        let windows = [
            s_image, s_group, s_channel, s_row, s_column, s_down, s_across,
        ];
        let image = self.groups * self.outputs * places;
        let result = [image, self.outputs * places, places, 1];
        let kernel = ContractKernel {
            batch: vec![self.images, self.groups],
            m: vec![self.outputs],
            n: self.places().to_vec(),
            k: self.depth(),
            left: loaded(access(w, 0, &weight)),
            right: loaded(access(x, 0, &windows)),
            epilogue: stored(access(output, 0, &result)),
            precision: Precision::F32,
        };
        (kernel, output, expected)
    }

    /// The weight's gradient.
    fn weight(&self, buffers: &mut Buffers) -> (ContractKernel, BufferId, Vec<f64>) {
        let (x, g) = (values(self.inputs(), 3), values(self.results(), 4));
        let mut expected = vec![0.0; self.weight_elements()];
        self.each(|i, j, o| expected[j] += f64::from(x[i]) * f64::from(g[o]));
        let (x, g) = (buffers.floats(&x), buffers.floats(&g));
        let output = buffers.empty(self.weight_elements());
        let [
            s_image,
            s_group,
            s_channel,
            s_row,
            s_column,
            s_down,
            s_across,
        ] = self.strides();
        let (k, places) = (self.depth().iter().product::<usize>(), self.count());
        let across = self.places()[1];
        let image = self.groups * self.outputs * places;
        let gradient = [self.outputs * places, places, image, across, 1];
        let windows = [
            s_group, s_image, s_down, s_across, s_channel, s_row, s_column,
        ];
        let kernel = ContractKernel {
            batch: vec![self.groups],
            m: vec![self.outputs],
            n: self.depth(),
            k: [&[self.images], &self.places()[..]].concat(),
            left: loaded(access(g, 0, &gradient)),
            right: loaded(access(x, 0, &windows)),
            epilogue: stored(access(output, 0, &[self.outputs * k, k, 1])),
            precision: Precision::F32,
        };
        (kernel, output, expected)
    }
}

fn check(kernel: ContractKernel, output: BufferId, expected: &[f64], buffers: &Buffers) {
    let depth = kernel.depth();
    let action = Action::Contract(kernel);
    let set = InstructionSet::detect();
    let one = run_with(&action, buffers, 1, set).expect("sound");
    let two = run_with(&action, buffers, 2, set).expect("sound");
    assert!(one == two, "other results with two threads");
    let bound = 4e-6 * (depth as f64).sqrt() + 1e-6;
    for (index, (result, expected)) in one.get(output).iter().zip(expected).enumerate() {
        let error = (f64::from(*result) - expected).abs();
        assert!(
            error <= bound,
            "{result} instead of {expected} at {index}: {action:#?}"
        );
    }
}

fn cases() -> Vec<Convolution> {
    let plain = Convolution {
        images: 2,
        groups: 1,
        channels: 3,
        outputs: 5,
        image: [9, 8],
        window: [3, 3],
        step: 1,
        dilation: 1,
    };
    vec![
        plain,
        Convolution {
            images: 1,
            channels: 1,
            outputs: 1,
            image: [3, 3],
            ..plain
        },
        // More depth than a block.
        Convolution {
            images: 3,
            channels: 50,
            outputs: 70,
            image: [16, 16],
            ..plain
        },
        // Runs longer than a register.
        Convolution {
            images: 1,
            image: [7, 67],
            window: [2, 5],
            ..plain
        },
        Convolution { step: 2, ..plain },
        Convolution {
            dilation: 2,
            window: [2, 3],
            ..plain
        },
        Convolution {
            groups: 3,
            channels: 2,
            outputs: 4,
            ..plain
        },
        // Windows of one element: a product at every place.
        Convolution {
            window: [1, 1],
            ..plain
        },
        Convolution {
            window: [1, 1],
            step: 3,
            ..plain
        },
        // A convolution of one axis.
        Convolution {
            image: [1, 40],
            window: [1, 4],
            ..plain
        },
    ]
}

/// Forward and weight's gradient of convolutions of different kinds.
pub(in super::super) fn some_kernels() -> Vec<(ContractKernel, Buffers)> {
    let mut kernels = Vec::new();
    for case in [0, 2, 6].map(|index| cases()[index]) {
        let mut buffers = Buffers::default();
        kernels.push((case.forward(&mut buffers).0, buffers));
        let mut buffers = Buffers::default();
        kernels.push((case.weight(&mut buffers).0, buffers));
    }
    kernels
}

#[test]
fn forward() {
    for case in cases() {
        let mut buffers = Buffers::default();
        let (kernel, output, expected) = case.forward(&mut buffers);
        check(kernel, output, &expected, &buffers);
    }
}

#[test]
fn gradient_of_the_weight() {
    for case in cases() {
        let mut buffers = Buffers::default();
        let (kernel, output, expected) = case.weight(&mut buffers);
        check(kernel, output, &expected, &buffers);
    }
}

/// The same product turned around: windows on the left.
#[test]
fn windows_on_the_left() {
    for case in cases() {
        let mut buffers = Buffers::default();
        let (kernel, output, expected) = case.weight(&mut buffers);
        let turn = |access: &Access, first: usize, second: usize| {
            let all = [&access.strides[..], &[access.column_stride]].concat();
            let (batch, rest) = all.split_at(1);
            let (a, b) = rest.split_at(first);
            assert_eq!(b.len(), second);
            super::convolutions::access(access.buffer, 0, &[batch, b, a].concat())
        };
        let side = |operand: &Operand| operand.as_load().expect("a load").clone();
        let (gradient, windows) = (side(&kernel.left), side(&kernel.right));
        let k: usize = case.depth().iter().product();
        let turned = ContractKernel {
            batch: kernel.batch.clone(),
            m: kernel.n.clone(),
            n: kernel.m.clone(),
            k: kernel.k.clone(),
            left: loaded(turn(&windows, 3, 3)),
            right: loaded(turn(&gradient, 1, 3)),
            epilogue: stored(access(output, 0, &[case.outputs * k, 1, k])),
            precision: Precision::F32,
        };
        check(turned, output, &expected, &buffers);
    }
}
