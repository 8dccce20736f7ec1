use crate::schedule::{Schedule, Storage};

/// Offsets are multiples of this many elements: a cache line, and what GPUs ask of a binding.
const ALIGNMENT: usize = 64;

/// First and last kernel that touches a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    first: usize,
    last: usize,
}

impl Lifetime {
    fn overlaps(self, other: Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The lifetime of each buffer; `None` when no kernel touches it.
pub fn lifetimes(schedule: &Schedule) -> Vec<Option<Lifetime>> {
    let mut lifetimes: Vec<Option<Lifetime>> = vec![None; schedule.buffers.len()];
    for (step, kernel) in schedule.kernels.iter().enumerate() {
        for id in kernel.reads().into_iter().chain(kernel.writes()) {
            let lifetime = lifetimes[id.index()].get_or_insert(Lifetime {
                first: step,
                last: step,
            });
            lifetime.last = step;
        }
    }
    lifetimes
}

/// An offset for each temporary (0 for the rest) and the size of the arena: the largest
/// first, each at the lowest place that is free during its life.
pub fn place(schedule: &Schedule, lifetimes: &[Option<Lifetime>]) -> (Vec<usize>, usize) {
    let mut order: Vec<(usize, Lifetime)> = lifetimes
        .iter()
        .enumerate()
        .filter(|(index, _)| schedule.buffers[*index].storage == Storage::Temporary)
        .filter_map(|(index, lifetime)| Some((index, (*lifetime)?)))
        .collect();
    let size = |index: usize| schedule.buffers[index].elements.next_multiple_of(ALIGNMENT);
    order.sort_by_key(|(index, _)| (std::cmp::Reverse(size(*index)), *index));
    let mut offsets = vec![0; schedule.buffers.len()];
    let mut placed: Vec<(usize, Lifetime)> = Vec::new();
    let mut total = 0;
    for (index, lifetime) in order {
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|(_, other)| lifetime.overlaps(*other))
            .map(|(other, _)| (offsets[*other], offsets[*other] + size(*other)))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (start, end) in taken {
            if start >= offset + size(index) {
                break;
            }
            offset = offset.max(end);
        }
        offsets[index] = offset;
        total = total.max(offset + size(index));
        placed.push((index, lifetime));
    }
    (offsets, total)
}
