//! What products fetch meanwhile.

use super::super::vector::Vector;

/// Floats of a cache line.
const LINE: usize = 16;

/// Rows of memory that are soon needed, of which lines are fetched one after the other.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) struct Soon {
    next: *const f32,
    /// Lines of a row, and those before the next row.
    lines: usize,
    left: usize,
    /// From the last line of a row to the first of the next.
    jump: usize,
    /// Lines that are left of all rows.
    count: usize,
}

impl Soon {
    const NOTHING: Soon = Soon {
        next: std::ptr::null(),
        lines: 1,
        left: 1,
        jump: 0,
        count: 0,
    };

    /// Rows of `width` floats, `stride` floats from one to the next.
    pub fn rows(from: *const f32, stride: usize, rows: usize, width: usize) -> Soon {
        let lines = width.div_ceil(LINE).max(1);
        Soon {
            next: from,
            lines,
            left: lines,
            jump: stride.wrapping_sub((lines - 1) * LINE),
            count: rows * lines,
        }
    }

    /// Whether no line is left.
    #[inline(always)]
    pub(super) fn is_done(&self) -> bool {
        self.count == 0
    }

    /// Asks for the next line, if one is left.
    #[inline(always)]
    pub(super) fn fetch<V: Vector>(&mut self) {
        if self.count == 0 {
            return;
        }
        V::fetch(self.next, false);
        self.count -= 1;
        self.left -= 1;
        let last = self.left == 0;
        self.left = if last { self.lines } else { self.left };
        self.next = self.next.wrapping_add(if last { self.jump } else { LINE });
    }
}

/// What products fetch between their steps, a line at a time so that these do not queue up.
#[derive(Debug)]
pub(in crate::runtime::cpu) struct Queue {
    /// The last of them comes first.
    areas: [Soon; Queue::ROOM],
    count: usize,
}

impl Queue {
    const ROOM: usize = 8;

    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            areas: [Soon::NOTHING; Queue::ROOM],
            count: 0,
        }
    }

    /// Fetches this before what is there, of which the last is forgotten if there is no more room.
    pub fn push(&mut self, soon: Soon) {
        if soon.count == 0 {
            return;
        }
        if self.count == Queue::ROOM {
            self.areas.rotate_left(1);
            self.count -= 1;
        }
        self.areas[self.count] = soon;
        self.count += 1;
    }

    /// What comes next, which is no longer in the queue; nothing of an empty one.
    #[inline]
    pub(super) fn pop(&mut self) -> Soon {
        let Some(last) = self.count.checked_sub(1) else {
            return Soon::NOTHING;
        };
        self.count = last;
        self.areas[last]
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::vector::Portable;
    use super::*;

    #[test]
    fn a_queue_gives_the_last_area_first_line_by_line() {
        let data = [0.0_f32; 400];
        let area = |first: usize, rows, width| Soon::rows(data[first..].as_ptr(), 100, rows, width);
        // As many lines of the queue's next area as a product may take.
        let places = |queue: &mut Queue, most: usize| {
            let mut places = Vec::new();
            for _ in 0..most {
                let mut soon = queue.pop();
                if soon.is_done() {
                    break;
                }
                places.push((soon.next as usize - data.as_ptr() as usize) / 4);
                soon.fetch::<Portable>();
                queue.push(soon);
            }
            places
        };
        let mut queue = Queue::new();
        assert!(places(&mut queue, 1).is_empty());
        queue.push(area(0, 3, 48));
        queue.push(area(50, 2, 16));
        queue.push(area(70, 0, 16));
        assert_eq!(places(&mut queue, 1), [50]);
        assert_eq!(places(&mut queue, 4), [150, 0, 16, 32]);
        queue.push(area(7, 1, 1));
        assert_eq!(places(&mut queue, 3), [7, 100, 116]);
        assert_eq!(places(&mut queue, 9), [132, 200, 216, 232]);
        for row in 0..=Queue::ROOM {
            queue.push(area(row, 1, 16));
        }
        let newest: Vec<_> = (1..=Queue::ROOM).rev().collect();
        assert_eq!(places(&mut queue, 99), newest);
    }
}
