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

/// How many places for a temporary are compared.
const CANDIDATES: usize = 64;

/// A part of the arena, in words, and when it is in use.
#[derive(Clone, Copy)]
struct Place {
    offset: usize,
    size: usize,
    lifetime: Lifetime,
}

impl Place {
    fn end(self) -> usize {
        self.offset + self.size
    }

    fn middle(self) -> usize {
        self.offset + self.size / 2
    }

    /// How many words change hands between these two, if the first half of everything is one
    /// thread's and the second half another's.
    fn changing_hands(self, other: Place) -> usize {
        let first = self.offset.max(other.offset);
        let last = self.end().min(other.end()).max(first);
        let [one, two] = [self, other].map(|place| place.middle().clamp(first, last));
        one.abs_diff(two)
    }
}

/// Which places are considered for a temporary.
#[derive(Clone, Copy, PartialEq)]
enum Search {
    /// The lowest that is free during its life.
    Lowest,
    /// All that begin where another ends, or at the beginning.
    Ends,
    /// Those, and the middles of others.
    Middles,
}

/// The places of temporaries.
struct Arena {
    search: Search,
    places: Vec<Place>,
    total: usize,
}

impl Arena {
    fn new(search: Search) -> Arena {
        Arena {
            search,
            places: Vec::new(),
            total: 0,
        }
    }

    /// Takes a place for a temporary: of those that need no more memory than the lowest would, the
    /// one where the fewest words change hands.
    fn take(&mut self, size: usize, lifetime: Lifetime) -> usize {
        let at = |offset| Place {
            offset,
            size,
            lifetime,
        };
        let offsets = self.free(size, lifetime);
        let lowest = offsets[0];
        let most = self.total.max(lowest + size);
        let candidates = match self.search {
            Search::Lowest => &offsets[..1],
            _ => &offsets[..offsets.len().min(CANDIDATES)],
        };
        let cost = |&&offset: &&usize| {
            let places = self.places.iter();
            let words = places.map(|&place| at(offset).changing_hands(place));
            words.sum::<usize>()
        };
        let fits = candidates.iter().filter(|&offset| offset + size <= most);
        let place = at(*fits.min_by_key(cost).unwrap_or(&lowest));
        self.total = self.total.max(place.end());
        self.places.push(place);
        place.offset
    }

    /// Offsets at which so many words are free during a life, in order; there is always one.
    fn free(&self, size: usize, lifetime: Lifetime) -> Vec<usize> {
        let taken = self.taken(lifetime);
        let fits = |offset: &usize| {
            let next = taken.partition_point(|&(_, end)| end <= *offset);
            let next = taken.get(next);
            next.is_none_or(|&(start, _)| start >= offset + size)
        };
        let ends = taken.iter().map(|&(_, end)| end);
        let mut offsets: Vec<usize> = std::iter::once(0).chain(ends).filter(fits).collect();
        if self.search == Search::Middles {
            let middles = self.places.iter().filter_map(|place| {
                let around = place.middle().checked_sub(size / 2)?;
                Some(around / ALIGNMENT * ALIGNMENT)
            });
            offsets.extend(middles.filter(fits));
            offsets.sort_unstable();
            offsets.dedup();
        }
        offsets
    }

    /// What is in use during a life, in order and without overlaps.
    fn taken(&self, lifetime: Lifetime) -> Vec<(usize, usize)> {
        let places = self.places.iter();
        let alive = places.filter(|place| place.lifetime.overlaps(lifetime));
        let mut taken: Vec<_> = alive.map(|place| (place.offset, place.end())).collect();
        taken.sort_unstable();
        taken.dedup_by(|next, last| {
            let meets = next.0 <= last.1;
            if meets {
                last.1 = last.1.max(next.1);
            }
            meets
        });
        taken
    }
}

/// Offsets of temporaries, in the order given, and how many words they need together.
///
/// A thread has the same part of every temporary, but what two of different sizes have in turn
/// belongs to one thread in the one and to another in the other, and is expensive to write where
/// cores share no cache. Therefore those of one size keep to the same places, and others lie in
/// the middle of a larger one, unless that needs more memory than always taking the lowest place.
fn offsets(temporaries: &[(usize, Lifetime)]) -> (Vec<usize>, usize) {
    let searched = |search| {
        let mut arena = Arena::new(search);
        let places = temporaries.iter();
        let offsets = places.map(|&(size, lifetime)| arena.take(size, lifetime));
        (offsets.collect::<Vec<_>>(), arena.total)
    };
    let lowest = searched(Search::Lowest);
    let close = [Search::Middles, Search::Ends].into_iter();
    close
        .map(searched)
        .find(|(_, total)| *total <= lowest.1)
        .unwrap_or(lowest)
}

/// An offset for each temporary (0 for the rest) and the size of the arena, in words: the largest
/// first, each at a place that is free during its life.
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
    let sizes = order.iter().map(|&(index, life)| (size(index), life));
    let (places, total) = offsets(&sizes.collect::<Vec<_>>());
    let mut offsets = vec![0; schedule.buffers.len()];
    for ((index, _), place) in order.iter().zip(places) {
        offsets[*index] = place;
    }
    let offsets = owners.iter().map(|&owner| offsets[owner]).collect();
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(first: usize, last: usize) -> Lifetime {
        Lifetime { first, last }
    }

    /// How many words belong to another half than in the temporary that had them before.
    fn changing_hands(temporaries: &[(usize, Lifetime)], offsets: &[usize]) -> usize {
        let mut owners = std::collections::HashMap::new();
        let mut order: Vec<_> = temporaries.iter().zip(offsets).collect();
        order.sort_by_key(|((_, lifetime), _)| lifetime.first);
        let mut count = 0;
        for ((size, _), offset) in order {
            for word in 0..*size {
                let owner = word >= size / 2;
                let before = owners.insert(offset + word, owner);
                count += usize::from(before.is_some_and(|before| before != owner));
            }
        }
        count
    }

    #[test]
    fn sizes_in_turn_share_their_middle() {
        let unit = ALIGNMENT;
        let temporaries = [
            (16 * unit, life(0, 1)),
            (8 * unit, life(2, 3)),
            (8 * unit, life(6, 7)),
            (4 * unit, life(4, 5)),
            (4 * unit, life(8, 9)),
        ];
        let (offsets, total) = offsets(&temporaries);
        assert_eq!(total, 16 * unit);
        assert_eq!(changing_hands(&temporaries, &offsets), 0, "{offsets:?}");
    }

    #[test]
    fn no_more_memory_is_taken_than_at_the_lowest_places() {
        let unit = ALIGNMENT;
        // In the middle of the first, the second would leave no room for the third.
        let temporaries = [
            (8 * unit, life(0, 1)),
            (4 * unit, life(2, 3)),
            (4 * unit, life(3, 4)),
        ];
        let (offsets, total) = offsets(&temporaries);
        assert_eq!(total, 8 * unit);
        assert_ne!(offsets[1], offsets[2]);
    }
}
