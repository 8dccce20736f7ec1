//! Going through a data set a batch at a time.

use std::sync::Arc;

use super::{Dataset, HostArray, Values};
use crate::ir::Shape;
use crate::ir::random::Stream;

/// Some examples of a data set: for each field one array whose first axis counts the examples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    rows: usize,
    fields: Vec<(String, HostArray)>,
}

impl Batch {
    /// The number of examples.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The array of the field `name`, if the data set has one.
    pub fn get(&self, name: &str) -> Option<&HostArray> {
        let mut fields = self.fields();
        fields.find_map(|(own, array)| (own == name).then_some(array))
    }

    /// All fields, in the data set's order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &HostArray)> {
        self.fields
            .iter()
            .map(|(name, array)| (name.as_str(), array))
    }

    /// Makes room for the fields `names`; those that are already there keep their memory.
    pub(super) fn prepare<'n>(&mut self, names: impl Iterator<Item = &'n str> + Clone) {
        if !names.clone().eq(self.fields.iter().map(|(name, _)| name)) {
            let nothing = HostArray {
                shape: Shape::from([0]),
                values: Values::F32(Vec::new()),
            };
            self.fields = names
                .map(|name| (name.to_string(), nothing.clone()))
                .collect();
        }
    }

    pub(super) fn arrays_mut(&mut self) -> impl Iterator<Item = &mut HostArray> {
        self.fields.iter_mut().map(|(_, array)| array)
    }
}

/// The batches of one pass through a data set.
///
/// As an iterator it allocates each batch; [`next_into`](Self::next_into) reuses one. Skipping
/// batches (`nth`, `skip`), as when a run resumes within an epoch, costs nothing.
#[derive(Clone, Debug)]
pub struct Batches<'d> {
    dataset: &'d Dataset,
    order: Arc<[usize]>,
    size: usize,
    /// Where in `order` the next batch starts.
    start: usize,
}

impl<'d> Batches<'d> {
    pub(super) fn new(dataset: &'d Dataset, size: usize) -> Self {
        Self {
            dataset,
            order: Arc::clone(dataset.order()),
            size,
            start: 0,
        }
    }

    /// From the first batch on, in the random order that belongs to this seed and epoch: the same
    /// everywhere, and for each epoch another.
    pub fn shuffled(self, seed: u64, epoch: u64) -> Self {
        let rows = self.dataset.order();
        let stream = Stream::named(seed, &format!("epoch {epoch}"));
        let order = stream.permutation(rows.len());
        Self {
            order: order.into_iter().map(|position| rows[position]).collect(),
            start: 0,
            ..self
        }
    }

    /// Puts the next batch into `batch`, reusing its memory; false when there is none.
    pub fn next_into(&mut self, batch: &mut Batch) -> bool {
        if self.start == self.order.len() {
            return false;
        }
        let end = self.start.saturating_add(self.size).min(self.order.len());
        batch.rows = end - self.start;
        self.dataset.gather(&self.order[self.start..end], batch);
        self.start = end;
        true
    }
}

impl Iterator for Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        self.next_into(&mut batch).then_some(batch)
    }

    fn nth(&mut self, count: usize) -> Option<Batch> {
        let skipped = count.saturating_mul(self.size);
        self.start = self.start.saturating_add(skipped).min(self.order.len());
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.order.len() - self.start).div_ceil(self.size);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches<'_> {}

#[cfg(test)]
mod tests {
    use super::super::Field;
    use super::*;

    fn numbered(rows: u32) -> Dataset {
        let pixels = (0..rows).flat_map(|row| [row as f32, -(row as f32)]);
        Dataset::new([
            Field::new("pixels", [2], pixels.collect::<Vec<f32>>()),
            Field::new("label", [], (0..rows).collect::<Vec<u32>>()),
        ])
        .unwrap()
    }

    fn labels(batches: Batches) -> Vec<u32> {
        batches
            .flat_map(|batch| batch.get("label").unwrap().as_u32().unwrap().to_vec())
            .collect()
    }

    #[test]
    fn the_last_batch_holds_what_is_left() {
        let data = numbered(10);
        let sizes = |size| {
            data.batches(size)
                .unwrap()
                .map(|batch| batch.rows())
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(4), [4, 4, 2]);
        assert_eq!(sizes(5), [5, 5]);
        assert_eq!(sizes(11), [10]);
        assert_eq!(sizes(usize::MAX), [10]);
        assert_eq!(data.batches(4).unwrap().len(), 3);
        assert_eq!(data.batches(0).unwrap_err().to_string().lines().count(), 1);
        assert_eq!(
            labels(data.batches(4).unwrap()),
            (0..10).collect::<Vec<_>>()
        );
    }

    #[test]
    fn fields_stay_together() {
        let data = numbered(9);
        for batch in data.batches(4).unwrap().shuffled(3, 0) {
            let labels = batch.get("label").unwrap();
            assert_eq!(labels.shape().dims(), [batch.rows()]);
            let expected: Vec<f32> = labels
                .as_u32()
                .unwrap()
                .iter()
                .flat_map(|&label| [label as f32, -(label as f32)])
                .collect();
            let pixels = batch.get("pixels").unwrap();
            assert_eq!(pixels.shape().dims(), [batch.rows(), 2]);
            assert_eq!(pixels.as_f32(), Some(&expected[..]));
        }
    }

    #[test]
    fn epochs_are_complete_repeatable_and_differ() {
        let data = numbered(10);
        let epoch = |seed, epoch| labels(data.batches(3).unwrap().shuffled(seed, epoch));
        let mut sorted = epoch(7, 0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        assert_eq!(epoch(7, 0), epoch(7, 0));
        assert_ne!(epoch(7, 0), epoch(7, 1));
        assert_ne!(epoch(7, 0), epoch(8, 0));
    }

    /// Pins the order itself, as another implementation gives it: a saved run resumes in the same
    /// order after an update.
    #[test]
    fn the_order_of_an_epoch_stays() {
        let data = numbered(8);
        let order = labels(data.batches(8).unwrap().shuffled(1, 0));
        assert_eq!(order, [5, 4, 0, 2, 3, 7, 6, 1]);
    }

    #[test]
    fn skipping_equals_going_through() {
        let data = numbered(10);
        let batches = || data.batches(3).unwrap().shuffled(1, 1);
        for skipped in 0..5 {
            let mut slow = batches();
            for _ in 0..skipped {
                slow.next();
            }
            assert_eq!(batches().nth(skipped), slow.next());
        }
    }

    #[test]
    fn a_reused_batch_equals_a_fresh_one() {
        let (data, mut batch) = (numbered(10), Batch::default());
        let mut batches = data.batches(4).unwrap();
        for expected in data.batches(4).unwrap() {
            assert!(batches.next_into(&mut batch));
            assert_eq!(batch, expected);
        }
        assert!(!batches.next_into(&mut batch));
        // Another data set's batch is no hindrance.
        let other = Dataset::new([Field::new("pixels", [], vec![1_u32])]).unwrap();
        assert!(other.batches(1).unwrap().next_into(&mut batch));
        assert_eq!(batch.fields().count(), 1);
        assert_eq!(batch.get("pixels").unwrap().as_u32(), Some(&[1][..]));
    }
}
