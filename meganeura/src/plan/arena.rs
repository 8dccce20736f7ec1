use crate::schedule::{Schedule, Storage};

/// Offsets are multiples of this many words of four bytes: a cache line, and what GPUs ask of a binding.
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

/// Temporaries whose gaps must stay as they are: those with the same gaps that do not live at
/// once stand in for each other. For each buffer, whose memory it has.
fn stand_ins(schedule: &Schedule, lifetimes: &[Option<Lifetime>]) -> Vec<usize> {
    let mut owners: Vec<usize> = (0..lifetimes.len()).collect();
    let mut tenants: Vec<(usize, Lifetime)> = Vec::new();
    for (index, buffer) in schedule.buffers.iter().enumerate() {
        let (Some(_), Some(lifetime)) = (buffer.gaps, lifetimes[index]) else {
            continue;
        };
        let free = |owner: &usize| {
            let mut others = tenants.iter().filter(|(other, _)| owners[*other] == *owner);
            // Gaps of another type lie elsewhere.
            let other = &schedule.buffers[*owner];
            (other.gaps, other.dtype) == (buffer.gaps, buffer.dtype)
                && !others.any(|(_, other)| other.overlaps(lifetime))
        };
        let owner = tenants.iter().map(|(other, _)| owners[*other]).find(free);
        owners[index] = owner.unwrap_or(index);
        tenants.push((index, lifetime));
    }
    owners
}

/// An offset for each temporary (0 for the rest) and the size of the arena, in words: the largest
/// first, each at the lowest place that is free during its life.
pub fn place(schedule: &Schedule, lifetimes: &[Option<Lifetime>]) -> (Vec<usize>, usize) {
    let owners = stand_ins(schedule, lifetimes);
    let always = Lifetime {
        first: 0,
        last: schedule.kernels.len(),
    };
    let life = |(index, lifetime): (usize, &Option<Lifetime>)| {
        let lifetime = (*lifetime)?;
        let gaps = schedule.buffers[index].gaps.is_some();
        Some((index, if gaps { always } else { lifetime }))
    };
    let mut order: Vec<(usize, Lifetime)> = lifetimes
        .iter()
        .enumerate()
        .filter(|(index, _)| schedule.buffers[*index].storage == Storage::Temporary)
        .filter(|(index, _)| owners[*index] == *index)
        .filter_map(life)
        .collect();
    let size = |index: usize| {
        let buffer = &schedule.buffers[index];
        let words = (buffer.elements * buffer.dtype.size()).div_ceil(4);
        words.next_multiple_of(ALIGNMENT)
    };
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
    let offsets = owners.iter().map(|&owner| offsets[owner]).collect();
    (offsets, total)
}
