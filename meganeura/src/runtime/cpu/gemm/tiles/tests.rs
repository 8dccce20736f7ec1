use super::*;

/// Steps of depth, and floats from one row of B or C to the next: more than any kernel reads.
const DEPTH: usize = 41;
const STRIDE: usize = 96;

fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|index| (index * 7919 % 64) as f32 - 31.5)
        .collect()
}

/// What `C` becomes, which is exact for numbers this small.
fn expected(
    a: impl Fn(usize, usize) -> f32,
    b: &[f32],
    mut c: Vec<f32>,
    columns: usize,
    spans: &[Span],
) -> Vec<f32> {
    for (row, c) in c.chunks_mut(STRIDE).enumerate() {
        let span = &spans[row / SPAN];
        for (column, c) in c.iter_mut().enumerate().take(columns) {
            let steps = span.first..span.first + span.count;
            let sum: f32 = steps.map(|d| a(row, d) * b[d * STRIDE + column]).sum();
            *c = if span.accumulate { *c + sum } else { sum };
        }
    }
    c
}

#[test]
fn every_instruction_set_multiplies_tiles_of_any_height_and_depth() {
    let (a, b) = (numbers(DEPTH * DEPTH), numbers(DEPTH * STRIDE));
    let queue = RefCell::new(Queue::new());
    queue
        .borrow_mut()
        .push(Soon::rows(b.as_ptr(), STRIDE, 9, 40));
    let right = Rows {
        from: b.as_ptr(),
        stride: STRIDE,
    };
    for sweeps in Sweeps::available() {
        let kernels = crate::runtime::cpu::gemm::best_kernels(Precision::F32);
        let tiles = Tiles { kernels, sweeps };
        for (rows, columns) in [
            (1_usize, 3_usize),
            (1, 1),
            (5, 16),
            (8, 17),
            (9, 33),
            (16, 48),
            (31, 70),
            (41, 64),
        ] {
            for accumulate in [false, true] {
                let spans: Vec<Span> = (0..rows.div_ceil(SPAN))
                    .map(|tile| Span {
                        first: 7 * tile,
                        // Some tiles have no depth, and those after them have all again.
                        count: [DEPTH - 7 * tile, 3, 0][tile % 3],
                        accumulate: accumulate ^ (tile == 1),
                    })
                    .collect();
                let all = vec![
                    Span {
                        first: 0,
                        count: DEPTH,
                        accumulate
                    };
                    spans.len()
                ];
                let by_rows = |row: usize, d: usize| a[row * DEPTH + d];
                let by_columns = |row: usize, d: usize| a[d * DEPTH + row];
                let before = numbers(rows * STRIDE);
                for (left, value) in [
                    (
                        Left::Rows(a.as_ptr(), DEPTH),
                        &by_rows as &dyn Fn(usize, usize) -> f32,
                    ),
                    (Left::Columns(a.as_ptr(), DEPTH), &by_columns),
                ] {
                    let mut c = before.clone();
                    let to = (c.as_mut_ptr(), STRIDE);
                    let size = [rows, columns];
                    // SAFETY: the matrices are as large as said, B's rows far longer.
                    unsafe { tiles.multiply_each(size, &spans, left, right, to, &queue) };
                    let each = expected(value, &b, before.clone(), columns, &spans);
                    assert!(c == each, "{sweeps:?}: {size:?}, {accumulate}");
                    let mut c = before.clone();
                    let to = (c.as_mut_ptr(), STRIDE);
                    let size = [rows, columns, DEPTH];
                    // SAFETY: as above.
                    unsafe { tiles.multiply(size, left, right, to, accumulate, &queue) };
                    let whole = expected(value, &b, before.clone(), columns, &all);
                    assert!(c == whole, "{sweeps:?}: {size:?}, {accumulate}");
                }
            }
        }
    }
}
