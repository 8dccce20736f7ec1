//! The header of a safetensors file: what is where.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde_json::{Map, Value, json};

use super::Problem;
use super::element::ElementType;
use crate::data::HostArray;

/// The key that holds remarks instead of a tensor.
const REMARKS: &str = "__metadata__";
/// The format's own limit.
const LONGEST: u64 = 100_000_000;
/// Elements start at a multiple of this, so that a mapped file can be used in place.
const ALIGNMENT: usize = 8;

#[derive(Debug)]
pub struct TensorInfo {
    pub name: String,
    pub element_type: ElementType,
    pub shape: Vec<usize>,
    /// First byte, and the one after the last, counted from the end of the header.
    range: (usize, usize),
}

impl TensorInfo {
    pub fn elements(&self) -> usize {
        (self.range.1 - self.range.0) / self.element_type.size()
    }
}

#[derive(Debug)]
pub struct Header {
    /// In the order of their elements.
    pub tensors: Vec<TensorInfo>,
    pub remarks: BTreeMap<String, String>,
}

impl Header {
    /// Describes a file that holds these arrays in the map's order.
    pub fn of(arrays: &BTreeMap<String, HostArray>, remarks: &BTreeMap<String, String>) -> Self {
        let mut end = 0;
        let tensors = arrays.iter().map(|(name, array)| {
            let element_type = ElementType::of(array.values());
            let start = end;
            end += array.values().len() * element_type.size();
            TensorInfo {
                name: name.clone(),
                element_type,
                shape: array.shape().dims().to_vec(),
                range: (start, end),
            }
        });
        Self {
            tensors: tensors.collect(),
            remarks: remarks.clone(),
        }
    }

    /// Writes the header and its length, padded with spaces.
    pub fn write(&self, writer: &mut impl Write) -> io::Result<()> {
        let mut object = Map::new();
        if !self.remarks.is_empty() {
            object.insert(REMARKS.to_string(), json!(self.remarks));
        }
        for tensor in &self.tensors {
            if tensor.name == REMARKS {
                let message = format!("no tensor can be called `{REMARKS}` in this format");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            let info = json!({
                "dtype": tensor.element_type.name(),
                "shape": tensor.shape,
                "data_offsets": [tensor.range.0, tensor.range.1],
            });
            object.insert(tensor.name.clone(), info);
        }
        let mut text = Value::Object(object).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(ALIGNMENT), b' ');
        writer.write_all(&(text.len() as u64).to_le_bytes())?;
        writer.write_all(&text)
    }

    /// Reads the header of a file of `length` bytes and checks it against that length.
    pub fn read(reader: &mut impl Read, length: u64) -> Result<Self, Problem> {
        let Some(rest) = length.checked_sub(8) else {
            let message = format!("it has {length} bytes, too few for a header");
            return Err(Problem::Format(message));
        };
        let mut size = [0; 8];
        reader.read_exact(&mut size)?;
        let size = u64::from_le_bytes(size);
        if size > rest || size > LONGEST {
            return Err(Problem::Format(format!(
                "it announces a header of {size} bytes and has {rest} bytes after that, \
                 {LONGEST} being the most for a header"
            )));
        }
        let mut text = vec![0; size as usize];
        reader.read_exact(&mut text)?;
        Self::parse(&text, rest - size).map_err(Problem::Format)
    }

    /// The header in `text`, before `data` bytes of elements.
    fn parse(text: &[u8], data: u64) -> Result<Self, String> {
        let object: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| format!("its header is not a JSON object: {error}"))?;
        let mut header = Self {
            tensors: Vec::new(),
            remarks: BTreeMap::new(),
        };
        for (name, value) in object {
            if name == REMARKS {
                header.remarks = parse_remarks(&value)?;
            } else {
                header.tensors.push(parse_tensor(name, &value)?);
            }
        }
        header.tensors.sort_by_key(|tensor| tensor.range);
        header.check_places(data)?;
        Ok(header)
    }

    /// The tensors follow one another from the first byte to the last.
    fn check_places(&self, data: u64) -> Result<(), String> {
        let mut end = 0;
        for tensor in &self.tensors {
            if tensor.range.0 != end {
                return Err(format!(
                    "tensor `{}` starts at byte {} where the one before it ends at {end}",
                    tensor.name, tensor.range.0
                ));
            }
            end = tensor.range.1;
        }
        if end as u64 == data {
            Ok(())
        } else {
            Err(format!(
                "its tensors take {end} bytes, but {data} follow the header: it was cut off or \
                 damaged"
            ))
        }
    }
}

fn parse_remarks(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let pairs = value.as_object().into_iter().flatten();
    let remarks: Option<BTreeMap<_, _>> = pairs
        .map(|(key, text)| Some((key.clone(), text.as_str()?.to_string())))
        .collect();
    match remarks {
        Some(remarks) if value.is_object() => Ok(remarks),
        _ => Err(format!("its `{REMARKS}` is not an object of texts")),
    }
}

fn parse_tensor(name: String, value: &Value) -> Result<TensorInfo, String> {
    let type_name = value["dtype"].as_str();
    let shape = sizes(&value["shape"]);
    let offsets = sizes(&value["data_offsets"]);
    let (Some(type_name), Some(shape), Some(&[start, end])) =
        (type_name, shape, offsets.as_deref())
    else {
        return Err(format!(
            "tensor `{name}` is not described by a `dtype`, a `shape` and two `data_offsets`"
        ));
    };
    let Some(element_type) = ElementType::from_name(type_name) else {
        return Err(format!(
            "tensor `{name}` has the element type {type_name}, and only {} can be read: \
             convert it first",
            ElementType::names()
        ));
    };
    let wanted = shape
        .iter()
        .try_fold(element_type.size(), |bytes, &size| bytes.checked_mul(size));
    if wanted.is_none() || end.checked_sub(start) != wanted {
        return Err(format!(
            "tensor `{name}` of type {type_name} and shape {shape:?} lies at bytes {start} to \
             {end}, which does not fit"
        ));
    }
    Ok(TensorInfo {
        name,
        element_type,
        shape,
        range: (start, end),
    })
}

/// A list of sizes.
fn sizes(value: &Value) -> Option<Vec<usize>> {
    let size = |value: &Value| usize::try_from(value.as_u64()?).ok();
    value.as_array()?.iter().map(size).collect()
}
