//! A table of examples.

use std::sync::Arc;

use super::array::elements;
use super::{Batches, DataError, HostArray, Values};
use crate::ir::random::Stream;
use crate::ir::{DType, Shape};

/// One named field of a data set: an array per row, all of one shape.
#[derive(Clone, Debug)]
pub struct Field {
    name: String,
    row_shape: Shape,
    values: Arc<Values>,
}

impl Field {
    /// The field `name`, whose rows have the shape `row_shape` and follow one another in
    /// `values`. The shape `[]` is one value per row, as for a label.
    pub fn new(
        name: impl Into<String>,
        row_shape: impl Into<Shape>,
        values: impl Into<Values>,
    ) -> Self {
        Self {
            name: name.into(),
            row_shape: row_shape.into(),
            values: Arc::new(values.into()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape of each row.
    pub fn row_shape(&self) -> &Shape {
        &self.row_shape
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// The number of rows that the values make up.
    fn rows(&self) -> Result<usize, DataError> {
        let length = elements(self.row_shape.dims()).unwrap_or(usize::MAX);
        if length == 0 {
            return Err(self.error(format!(
                "has rows of shape {}, which hold nothing to learn from",
                self.row_shape
            )));
        }
        if !self.values.len().is_multiple_of(length) {
            return Err(self.error(format!(
                "has {} values, which is no whole number of rows of shape {}",
                self.values.len(),
                self.row_shape
            )));
        }
        Ok(self.values.len() / length)
    }

    fn error(&self, problem: impl Into<String>) -> DataError {
        DataError::Field {
            field: self.name.clone(),
            problem: problem.into(),
        }
    }
}

/// A table of examples in memory: each row has an array in every field.
///
/// Cloning, splitting and selecting share the values.
#[derive(Clone, Debug)]
pub struct Dataset {
    fields: Vec<Field>,
    /// Which rows of the fields' values belong to this data set, in order.
    rows: Arc<[usize]>,
}

impl Dataset {
    /// The data set of these fields, which must have different names and equally many rows.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Result<Self, DataError> {
        let fields: Vec<Field> = fields.into_iter().collect();
        let Some(first) = fields.first() else {
            return Err(DataError::Request("a data set needs a field".into()));
        };
        let rows = first.rows()?;
        for (position, field) in fields.iter().enumerate() {
            if fields[..position].iter().any(|f| f.name == field.name) {
                return Err(field.error("is given twice: rename one of the two"));
            }
            let own = field.rows()?;
            if own != rows {
                return Err(field.error(format!(
                    "has {own} rows of shape {} where field `{}` has {rows} of shape {}",
                    field.row_shape, first.name, first.row_shape
                )));
            }
        }
        Ok(Self {
            fields,
            rows: (0..rows).collect(),
        })
    }

    /// The number of examples.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The fields, in the order they were given.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// One field of one example.
    pub fn row(&self, field: &str, row: usize) -> Result<HostArray, DataError> {
        let field = &self.fields[self.position(field)?];
        let Some(&source) = self.rows.get(row) else {
            return Err(self.no_such_row(row));
        };
        let mut values = field.values.none_like();
        values.gather(&field.values, field.row_length(), &[source]);
        Ok(HostArray {
            shape: field.row_shape.clone(),
            values,
        })
    }

    /// The examples `rows`, in that order; one may come several times.
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Result<Self, DataError> {
        let rows = rows
            .into_iter()
            .map(|row| self.rows.get(row).copied().ok_or(self.no_such_row(row)))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            fields: self.fields.clone(),
            rows,
        })
    }

    /// Splits at random into a part to train on and a part, `test_share` of all rows rounded, to
    /// test on. The same seed gives the same split everywhere. Within each part the rows keep
    /// their order.
    pub fn split(&self, test_share: f64, seed: u64) -> Result<(Self, Self), DataError> {
        let rows = self.rows();
        // A share that is negative or NaN becomes 0 here, and is refused below.
        let test = (rows as f64 * test_share).round() as usize;
        if test == 0 || test >= rows {
            return Err(DataError::Request(format!(
                "a test share of {test_share} leaves one part of {rows} rows empty: both parts \
                 need a row"
            )));
        }
        let mut order = Stream::named(seed, "split").permutation(rows);
        let (test, train) = order.split_at_mut(test);
        test.sort_unstable();
        train.sort_unstable();
        let part = |rows: &[usize]| self.select(rows.iter().copied());
        Ok((part(train)?, part(test)?))
    }

    /// The examples in order, `size` at a time; the last batch holds what is left.
    /// [`Batches::shuffled`] puts them into random order.
    pub fn batches(&self, size: usize) -> Result<Batches<'_>, DataError> {
        if size == 0 {
            return Err(DataError::Request(
                "a batch of 0 examples trains nothing: ask for 1 or more".into(),
            ));
        }
        Ok(Batches::new(self, size))
    }

    /// The same examples with the field `from` called `to`, as the model's input may be.
    pub fn rename(mut self, from: &str, to: &str) -> Result<Self, DataError> {
        let position = self.position(from)?;
        if from != to && self.fields.iter().any(|field| field.name == to) {
            return Err(
                self.fields[position].error(format!("cannot be called `{to}`: there is one"))
            );
        }
        self.fields[position].name = to.to_string();
        Ok(self)
    }

    /// The same examples with the rows of `field` in another shape, such as `[1, 28, 28]` for
    /// `[784]`.
    pub fn reshape(mut self, field: &str, row_shape: impl Into<Shape>) -> Result<Self, DataError> {
        let (position, row_shape) = (self.position(field)?, row_shape.into());
        let field = &mut self.fields[position];
        if elements(row_shape.dims()) != Some(field.row_length()) {
            return Err(field.error(format!(
                "has rows of shape {}, which cannot take the shape {row_shape}",
                field.row_shape
            )));
        }
        field.row_shape = row_shape;
        Ok(self)
    }

    /// Row numbers of the fields' values, in this data set's order.
    pub(super) fn order(&self) -> &Arc<[usize]> {
        &self.rows
    }

    /// Copies the given rows of the fields' values into `batch`.
    pub(super) fn gather(&self, rows: &[usize], batch: &mut super::Batch) {
        batch.prepare(self.fields.iter().map(|field| field.name.as_str()));
        for (field, array) in self.fields.iter().zip(batch.arrays_mut()) {
            array.shape = [&[rows.len()], field.row_shape.dims()].concat().into();
            array.values.gather(&field.values, field.row_length(), rows);
        }
    }

    fn position(&self, name: &str) -> Result<usize, DataError> {
        let found = self.fields.iter().position(|field| field.name == name);
        found.ok_or_else(|| DataError::Field {
            field: name.to_string(),
            problem: format!("is not among {}", self.names()),
        })
    }

    fn names(&self) -> String {
        let quoted = self.fields.iter().map(|field| format!("`{}`", field.name));
        quoted.collect::<Vec<_>>().join(", ")
    }

    fn no_such_row(&self, row: usize) -> DataError {
        DataError::Request(format!(
            "there is no row {row}: the data set has {} rows, counted from 0",
            self.rows()
        ))
    }
}

impl Field {
    /// Values per row, of a field that was checked.
    fn row_length(&self) -> usize {
        self.row_shape.elements()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(rows: u32) -> Dataset {
        let pixels = (0..rows).flat_map(|row| [row as f32, row as f32 + 0.5]);
        Dataset::new([
            Field::new("pixels", [2], pixels.collect::<Vec<f32>>()),
            Field::new("label", [], (0..rows).collect::<Vec<u32>>()),
        ])
        .unwrap()
    }

    fn labels(data: &Dataset) -> Vec<u32> {
        (0..data.rows())
            .map(|row| data.row("label", row).unwrap().as_u32().unwrap()[0])
            .collect()
    }

    fn message<T>(result: Result<T, DataError>) -> String {
        result.err().expect("an error").to_string()
    }

    #[test]
    fn splits_are_complete_disjoint_and_repeatable() {
        let data = numbered(10);
        let (train, test) = data.split(0.3, 1).unwrap();
        assert_eq!((train.rows(), test.rows()), (7, 3));
        let mut all = [labels(&train), labels(&test)].concat();
        all.sort_unstable();
        assert_eq!(all, labels(&data));
        assert_eq!(labels(&data.split(0.3, 1).unwrap().1), labels(&test));
        let others: Vec<_> = (2..6)
            .map(|seed| labels(&data.split(0.3, seed).unwrap().1))
            .collect();
        assert!(others.iter().any(|other| *other != labels(&test)));
    }

    #[test]
    fn splits_without_a_row_are_refused() {
        for share in [0.0, 0.04, 0.96, 1.0, 7.0, -1.0, f64::NAN] {
            assert!(message(numbered(10).split(share, 1)).contains("10 rows"));
        }
    }

    #[test]
    fn selections_share_and_nest() {
        let data = numbered(5).select([4, 2, 2]).unwrap();
        assert_eq!(labels(&data), [4, 2, 2]);
        assert_eq!(labels(&data.select([1, 0]).unwrap()), [2, 4]);
        assert_eq!(
            data.row("pixels", 0).unwrap().as_f32(),
            Some(&[4.0, 4.5][..])
        );
        assert_eq!(
            message(data.select([3])),
            "there is no row 3: the data set has 3 rows, counted from 0"
        );
    }

    #[test]
    fn rows_can_be_renamed_and_reshaped() {
        let data = numbered(2).rename("pixels", "image").unwrap();
        let data = data.reshape("image", [1, 2, 1]).unwrap();
        assert_eq!(data.row("image", 1).unwrap().shape().dims(), [1, 2, 1]);
        assert_eq!(
            message(data.clone().rename("image", "label")),
            "field `image` cannot be called `label`: there is one"
        );
        assert_eq!(
            message(data.clone().reshape("image", [3])),
            "field `image` has rows of shape [1, 2, 1], which cannot take the shape [3]"
        );
        assert_eq!(
            message(data.row("pixels", 0)),
            "field `pixels` is not among `image`, `label`"
        );
    }

    #[test]
    fn ill_formed_fields_are_refused() {
        let label = || Field::new("label", [], vec![0_u32; 3]);
        assert_eq!(message(Dataset::new([])), "a data set needs a field");
        assert_eq!(
            message(Dataset::new([label(), Field::new("x", [2], vec![0.0; 5])])),
            "field `x` has 5 values, which is no whole number of rows of shape [2]"
        );
        assert_eq!(
            message(Dataset::new([label(), Field::new("x", [2], vec![0.0; 4])])),
            "field `x` has 2 rows of shape [2] where field `label` has 3 of shape []"
        );
        assert!(message(Dataset::new([Field::new("x", [0], vec![0.0; 4])])).contains("nothing"));
        assert!(
            message(Dataset::new([Field::new(
                "x",
                [usize::MAX, 2],
                vec![0.0; 4]
            )]))
            .contains("no whole number")
        );
        assert!(message(Dataset::new([label(), label()])).contains("given twice"));
    }
}
