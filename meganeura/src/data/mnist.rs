//! MNIST and the data sets that come in its form.

use std::path::Path;

use super::{DataError, Dataset, Field, idx};

const FETCH: &str = "examples/fetch-data.sh";
const SIDE: usize = 28;
const CLASSES: u8 = 10;

/// Handwritten digits, 28 by 28 pixels, with their values.
///
/// Each data set has the fields `image` (rows `[784]`, 0 for the background to 1) and `label`
/// (0 to 9).
#[derive(Clone, Debug)]
pub struct Mnist {
    /// The digits to train on.
    pub train: Dataset,
    /// The digits to test on, by other writers.
    pub test: Dataset,
}

impl Mnist {
    /// Reads the four uncompressed IDX files of `folder`, as `examples/fetch-data.sh` leaves them
    /// in `data/mnist`. Fashion-MNIST and others of the same form will do as well.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, DataError> {
        let folder = folder.as_ref();
        let files = ["train", "t10k"].map(|part| {
            ["images-idx3-ubyte", "labels-idx1-ubyte"].map(|kind| format!("{part}-{kind}"))
        });
        let missing: Vec<String> = files
            .iter()
            .flatten()
            .filter(|name| !folder.join(name).exists())
            .cloned()
            .collect();
        if !missing.is_empty() {
            return Err(DataError::Missing {
                folder: folder.to_path_buf(),
                files: missing,
                command: FETCH.to_string(),
            });
        }
        let [train, test] = files.map(|[images, labels]| {
            Dataset::new([
                read_images(&folder.join(images))?,
                read_labels(&folder.join(labels))?,
            ])
        });
        Ok(Self {
            train: train?,
            test: test?,
        })
    }
}

fn read_images(path: &Path) -> Result<Field, DataError> {
    let array = idx::read(path)?;
    if array.shape.len() != 3 || array.shape[1..] != [SIDE, SIDE] {
        return Err(unexpected(
            path,
            format!(
                "has the shape {:?}, not [images, {SIDE}, {SIDE}]",
                array.shape
            ),
        ));
    }
    let bytes = array.into_bytes(&path.display().to_string())?;
    let pixels: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    Ok(Field::new("image", [SIDE * SIDE], pixels))
}

fn read_labels(path: &Path) -> Result<Field, DataError> {
    let array = idx::read(path)?;
    if array.shape.len() != 1 {
        return Err(unexpected(
            path,
            format!("has the shape {:?}, not [labels]", array.shape),
        ));
    }
    let bytes = array.into_bytes(&path.display().to_string())?;
    if let Some(position) = bytes.iter().position(|&label| label >= CLASSES) {
        return Err(unexpected(
            path,
            format!(
                "has the label {} at position {position}, not one below {CLASSES}",
                bytes[position]
            ),
        ));
    }
    let labels: Vec<u32> = bytes.into_iter().map(u32::from).collect();
    Ok(Field::new("label", [], labels))
}

fn unexpected(path: &Path, problem: String) -> DataError {
    DataError::File {
        file: path.display().to_string(),
        problem,
        advice: format!("fetch it again with `{FETCH}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder of its own for a test, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, header: &[u8], data: &[u8]) {
            std::fs::write(self.0.join(name), [header, data].concat()).unwrap();
        }

        /// `train` and `test` images with all pixels 0, 51, 102 … and as many labels.
        fn mnist(name: &str, train: u8, test: u8) -> Self {
            let folder = Self::new(name);
            for (part, count) in [("train", train), ("t10k", test)] {
                let pixels: Vec<u8> = (0..count).flat_map(|image| [image * 51; 784]).collect();
                let labels: Vec<u8> = (0..count).collect();
                let images = [0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28];
                folder.write(&format!("{part}-images-idx3-ubyte"), &images, &pixels);
                let header = [0, 0, 8, 1, 0, 0, 0, count];
                folder.write(&format!("{part}-labels-idx1-ubyte"), &header, &labels);
            }
            folder
        }

        fn error(&self) -> String {
            Mnist::open(&self.0).unwrap_err().to_string()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // What is left in the temporary folder does no harm.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn images_are_scaled_and_labels_kept() {
        let folder = Folder::mnist("mnist-good", 6, 2);
        let mnist = Mnist::open(&folder.0).unwrap();
        assert_eq!((mnist.train.rows(), mnist.test.rows()), (6, 2));
        let image = mnist.train.row("image", 5).unwrap();
        assert_eq!(image.shape().dims(), [784]);
        assert_eq!(image.as_f32().unwrap(), [1.0; 784]);
        assert_eq!(
            mnist.train.row("image", 1).unwrap().as_f32().unwrap()[0],
            0.2
        );
        assert_eq!(
            mnist.train.row("label", 5).unwrap().as_u32(),
            Some(&[5][..])
        );
    }

    #[test]
    fn all_missing_files_are_named_with_the_command() {
        let folder = Folder::mnist("mnist-missing", 1, 1);
        std::fs::remove_file(folder.0.join("t10k-labels-idx1-ubyte")).unwrap();
        assert_eq!(
            folder.error(),
            format!(
                "`t10k-labels-idx1-ubyte` is not in `{}`: fetch with `examples/fetch-data.sh`",
                folder.0.display()
            )
        );
        std::fs::remove_file(folder.0.join("train-images-idx3-ubyte")).unwrap();
        let error = folder.error();
        assert!(error.starts_with("`train-images-idx3-ubyte`, `t10k-labels-idx1-ubyte` are not"));
    }

    #[test]
    fn other_shapes_types_and_labels_are_refused() {
        let folder = Folder::mnist("mnist-other", 1, 1);
        let labels = "train-labels-idx1-ubyte";
        folder.write(labels, &[0, 0, 8, 1, 0, 0, 0, 1], &[10]);
        assert!(folder.error().contains("the label 10 at position 0"));
        folder.write(labels, &[0, 0, 9, 1, 0, 0, 0, 1], &[1]);
        assert!(folder.error().contains("holds signed bytes"));
        folder.write(labels, &[0, 0, 8, 1, 0, 0, 0, 2], &[1, 1]);
        assert!(folder.error().contains("field `label` has 2 rows"));
        folder.write(labels, &[0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 1], &[1]);
        assert!(folder.error().contains("the shape [1, 1], not [labels]"));
        let header = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1];
        folder.write("train-images-idx3-ubyte", &header, &[0, 0]);
        assert!(folder.error().contains("[1, 2, 1], not [images, 28, 28]"));
    }
}
