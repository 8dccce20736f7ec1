//! Where barriers must stand between dispatches.
//!
//! Two dispatches may run at the same time unless one writes memory that the other
//! touches. [`place`] puts a barrier before a dispatch that conflicts with one since the
//! last barrier; [`check`] verifies a placement without sharing code with it, because
//! some drivers forgive a missing barrier and some do not.

/// A range of bytes within a numbered memory space, such as one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// Which memory; ranges in different spaces never overlap.
    pub space: usize,
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Region {
    /// True when both share at least one byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.space == other.space && self.start < other.end && other.start < self.end
    }
}

/// The memory that one dispatch reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Regions that are read.
    pub reads: Vec<Region>,
    /// Regions that are written, or both read and written.
    pub writes: Vec<Region>,
}

impl Access {
    /// True when the two may not run at the same time.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let touch = |left: &[Region], right: &[Region]| {
            left.iter().any(|a| right.iter().any(|b| a.overlaps(b)))
        };
        touch(&self.writes, &other.reads)
            || touch(&self.writes, &other.writes)
            || touch(&self.reads, &other.writes)
    }
}

/// Says for every dispatch whether a barrier must stand before it.
pub fn place<'a>(accesses: impl IntoIterator<Item = &'a Access>) -> Vec<bool> {
    let mut open: Vec<&Access> = Vec::new();
    accesses
        .into_iter()
        .map(|access| {
            let barrier = open.iter().any(|earlier| access.conflicts_with(earlier));
            if barrier {
                open.clear();
            }
            open.push(access);
            barrier
        })
        .collect()
}

/// Two dispatches that may run at the same time though they conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hazard {
    /// The index of the earlier dispatch.
    pub earlier: usize,
    /// The index of the later one.
    pub later: usize,
    /// The bytes they fight over.
    pub region: Region,
}

/// Finds the first pair of conflicting dispatches that no barrier separates.
pub fn check(accesses: &[Access], barriers: &[bool]) -> Option<Hazard> {
    let mut last_barrier = 0;
    for (later, access) in accesses.iter().enumerate() {
        if barriers.get(later).copied().unwrap_or(false) {
            last_barrier = later;
        }
        for (earlier, other) in accesses.iter().enumerate().take(later).skip(last_barrier) {
            let written = other.writes.iter().flat_map(|w| {
                let touched = access.reads.iter().chain(&access.writes);
                touched.filter(|t| t.overlaps(w))
            });
            let overwritten = access.writes.iter().filter(|w| {
                let mut reads = other.reads.iter();
                reads.any(|r| r.overlaps(w))
            });
            if let Some(&region) = written.chain(overwritten).next() {
                return Some(Hazard {
                    earlier,
                    later,
                    region,
                });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(space: usize, start: u64, end: u64) -> Region {
        Region { space, start, end }
    }

    fn access(reads: &[Region], writes: &[Region]) -> Access {
        Access {
            reads: reads.to_vec(),
            writes: writes.to_vec(),
        }
    }

    #[test]
    fn barriers_separate_each_kind_of_hazard_and_nothing_else() {
        let (a, b, c) = (region(0, 0, 64), region(0, 64, 128), region(1, 0, 64));
        let accesses = [
            access(&[a], &[b]),                  // 0
            access(&[a], &[c]),                  // 1: shares a read only
            access(&[b], &[region(2, 0, 4)]),    // 2: read after write
            access(&[], &[b]),                   // 3: write after read
            access(&[], &[region(0, 100, 104)]), // 4: write after write, partly
            access(&[c], &[]),                   // 5: written before an earlier barrier
        ];
        let barriers = place(&accesses);
        assert_eq!(barriers, [false, false, true, true, true, false]);
        assert_eq!(check(&accesses, &barriers), None);
    }

    #[test]
    fn a_missing_barrier_is_found() {
        let (a, b) = (region(0, 0, 64), region(0, 64, 128));
        let accesses = [access(&[], &[a]), access(&[], &[b]), access(&[a], &[])];
        let hazard = check(&accesses, &[false; 3]).unwrap();
        assert_eq!((hazard.earlier, hazard.later, hazard.region), (0, 2, a));
        let reversed = [access(&[a], &[]), access(&[], &[a])];
        assert!(check(&reversed, &[false; 2]).is_some());
        assert!(check(&reversed, &[false, true]).is_none());
    }
}
