//! What the next block of queries and the next head read and write, fetched meanwhile.

use super::super::{AHEAD, AttentionProgram, Pass};
use super::{BLOCK, Task};

impl AttentionProgram {
    /// The batch and the head of keys after a task's.
    fn next_keys(&self, task: &Task<'_>) -> Option<[usize; 2]> {
        let heads = self.kernel.key_heads();
        let next = task.batch * heads + task.key_head + 1;
        (next < self.batches() * heads).then_some([next / heads, next % heads])
    }

    /// Fetches what the next head has of keys meanwhile.
    pub(super) fn fetch_keys(&self, task: &Task<'_>) {
        let Some(at) = self.next_keys(task) else {
            return;
        };
        let (kernel, mut queue) = (&self.kernel, task.queue.borrow_mut());
        let keys = 0..kernel.keys.min(AHEAD);
        queue.push(self.key.soon(at, keys.clone(), kernel.width));
        if let Some(value) = &self.value {
            queue.push(value.soon(at, keys.clone(), kernel.value_width));
        }
        for target in [task.key, task.value].into_iter().flatten() {
            queue.push(target.soon(at, keys.clone()));
        }
    }

    /// Fetches what the next block has of queries, of a head or the one after it.
    pub(super) fn fetch_queries(&self, task: &Task<'_>, head: usize, first: usize) {
        let kernel = &self.kernel;
        let (at, first) = if first < task.queries.end {
            ([task.batch, head], first)
        } else if head % kernel.group + 1 < kernel.group {
            ([task.batch, head + 1], task.queries.start)
        } else if let Some([batch, key_head]) = self.next_keys(task) {
            ([batch, key_head * kernel.group], task.queries.start)
        } else {
            return;
        };
        let queries = first..(first + BLOCK).min(task.queries.end);
        let mut queue = task.queue.borrow_mut();
        if let Some(target) = task.query {
            queue.push(target.soon(at, queries.clone()));
        }
        if let Pass::Backward { upstream, .. } = &self.pass {
            queue.push(upstream.soon(at, queries.clone(), kernel.value_width));
        }
        queue.push(self.query.soon(at, queries, kernel.width));
    }
}
