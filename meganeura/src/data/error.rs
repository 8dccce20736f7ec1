//! What can be wrong with data.

use std::io;
use std::path::PathBuf;

use crate::ir::Shape;

/// Why data could not be read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Files that a loader needs are not there.
    #[error("{} not in `{}`: fetch with `{command}`", listed(.files), .folder.display())]
    Missing {
        /// Where they were looked for.
        folder: PathBuf,
        /// The names of all that are missing.
        files: Vec<String>,
        /// The command that fetches them.
        command: String,
    },
    /// The operating system could not read a file.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file does not hold what its format or its loader asks for.
    #[error("`{file}` {problem}: {advice}")]
    File {
        /// The file's path, or what stands for it.
        file: String,
        /// What was found and what was expected, to be read after the file's name.
        problem: String,
        /// What to do about it.
        advice: String,
    },
    /// A shape and the number of values given for it do not fit.
    #[error("shape {shape} asks for {} values, not {values}", wanted(.shape))]
    Shape {
        /// The shape.
        shape: Shape,
        /// How many values there are.
        values: usize,
    },
    /// A field of a data set is unusable.
    #[error("field `{field}` {problem}")]
    Field {
        /// The field's name.
        field: String,
        /// What is wrong and what to do, to be read after the field's name.
        problem: String,
    },
    /// A request that the data set cannot meet.
    #[error("{0}")]
    Request(String),
}

/// "`a` is" or "`a`, `b` are".
fn listed(files: &[String]) -> String {
    let names: Vec<String> = files.iter().map(|name| format!("`{name}`")).collect();
    let verb = if files.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

fn wanted(shape: &Shape) -> String {
    match super::array::elements(shape.dims()) {
        Some(count) => count.to_string(),
        None => "more than can be counted".to_string(),
    }
}
