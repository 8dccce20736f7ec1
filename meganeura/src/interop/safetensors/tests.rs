use super::*;
use crate::ir::random::Stream;

fn example() -> Tensors {
    let mut tensors = Tensors::default();
    let weight = vec![
        1.0,
        -2.5,
        f32::NAN.copysign(-1.0),
        f32::MIN_POSITIVE / 2.0,
        -0.0,
        0.1,
    ];
    tensors.insert("weight", HostArray::new([2, 3], weight).unwrap());
    tensors.insert(
        "labels",
        HostArray::new([2], vec![7_u32, u32::MAX]).unwrap(),
    );
    tensors.insert("loss", HostArray::new([], vec![0.5]).unwrap());
    tensors.insert("empty", HostArray::new([0, 4], Vec::<f32>::new()).unwrap());
    tensors.set_remark("format", "pt");
    tensors.set_remark("a \"quoted\" key", "line\nbreak");
    tensors
}

fn bytes(tensors: &Tensors) -> Vec<u8> {
    let mut bytes = Vec::new();
    tensors.write_to(&mut bytes).unwrap();
    bytes
}

/// A file with this header before so many zero bytes.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(vec![0; data]);
    bytes
}

fn read(bytes: &[u8]) -> Result<Tensors, Problem> {
    Tensors::read_from(bytes, bytes.len() as u64)
}

fn problem(bytes: &[u8]) -> String {
    match read(bytes) {
        Err(Problem::Format(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

fn tensor(name: &str, shape: &str, start: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}"#)
}

/// A folder of its own for a test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("safetensors-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_is_read_bit_for_bit() {
    let (tensors, again) = (example(), read(&bytes(&example())).unwrap());
    assert_eq!(again.remarks, tensors.remarks);
    assert_eq!(again.len(), tensors.len());
    for ((name, array), (other_name, other)) in tensors.iter().zip(again.iter()) {
        assert_eq!((name, array.shape()), (other_name, other.shape()));
        let bits = |array: &HostArray| match array.values() {
            Values::F32(values) => values.iter().map(|value| value.to_bits()).collect(),
            Values::U32(values) => values.clone(),
        };
        assert_eq!(bits(array), bits(other));
    }
}

#[test]
fn values_longer_than_the_buffer_are_read() {
    let values: Vec<u32> = (0..2 * element::BUFFERED as u32 + 3).collect();
    let mut tensors = Tensors::default();
    tensors.insert("long", HostArray::new([values.len()], values).unwrap());
    assert_eq!(read(&bytes(&tensors)).unwrap(), tensors);
}

#[test]
fn the_elements_are_aligned() {
    let bytes = bytes(&example());
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(header % 8, 0);
    assert_eq!(bytes[8], b'{');
}

#[test]
fn errors_name_the_file_the_tensor_and_both_shapes() {
    let folder = Folder::new("errors");
    let path = folder.0.join("model");
    example().save(&path).unwrap();
    let tensors = Tensors::load(&path).unwrap();
    assert_eq!(tensors.u32("labels", &[2]).unwrap(), [7, u32::MAX]);
    let name = path.display();
    assert_eq!(
        tensors.f32("weight", &[3, 2]).unwrap_err().to_string(),
        format!("tensor `weight` of `{name}` is f32 [2, 3], but f32 [3, 2] is expected")
    );
    assert_eq!(
        tensors.u32("weight", &[2, 3]).unwrap_err().to_string(),
        format!("tensor `weight` of `{name}` is f32 [2, 3], but u32 [2, 3] is expected")
    );
    assert_eq!(
        tensors.get("bias").unwrap_err().to_string(),
        format!("`{name}` has no tensor `bias`; it has `empty`, `labels`, `loss`, `weight`")
    );
    let missing = folder.0.join("missing");
    let error = Tensors::load(&missing).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot read `{}`", missing.display())));
    std::fs::write(&path, [0; 3]).unwrap();
    assert_eq!(
        Tensors::load(&path).unwrap_err().to_string(),
        format!("`{name}` is no valid safetensors file: it has 3 bytes, too few for a header")
    );
}

#[test]
fn saving_replaces_the_file_and_leaves_nothing_else() {
    let folder = Folder::new("replace");
    let path = folder.0.join("model");
    example().save(&path).unwrap();
    let mut other = Tensors::default();
    other.insert("x", HostArray::new([1], vec![1.0]).unwrap());
    other.save(&path).unwrap();
    assert_eq!(Tensors::load(&path).unwrap(), other);
    assert_eq!(folder.names(), ["model"]);
}

#[test]
fn a_failed_save_leaves_the_old_file() {
    let folder = Folder::new("failed");
    let path = folder.0.join("model");
    let mut good = Tensors::default();
    good.insert("x", HostArray::new([1], vec![1.0]).unwrap());
    good.save(&path).unwrap();
    let mut bad = good.clone();
    bad.insert("__metadata__", HostArray::new([1], vec![1.0]).unwrap());
    let error = bad.save(&path).unwrap_err().to_string();
    assert!(error.starts_with("cannot write `") && error.contains("no tensor can be called"));
    assert_eq!(Tensors::load(&path).unwrap(), good);
    assert_eq!(folder.names(), ["model"]);
    assert!(good.save(folder.0.join("no/such/folder")).is_err());
    assert!(
        good.save("/")
            .unwrap_err()
            .to_string()
            .contains("file name")
    );
}

#[test]
fn ill_formed_headers_are_refused() {
    let one = |shape, start, end| format!("{{{}}}", tensor("x", shape, start, end));
    assert!(read(&file(&one("[2]", 0, 8), 8)).is_ok());
    assert!(read(&file("{}", 0)).unwrap().is_empty());
    for (header, data, expected) in [
        ("[]".to_string(), 0, "not a JSON object"),
        ("{\"x\":".to_string(), 0, "not a JSON object"),
        ("{\"x\":3}".to_string(), 0, "`x` is not described by"),
        (one("[-1]", 0, 8), 8, "`x` is not described by"),
        (one("[2.5]", 0, 8), 8, "`x` is not described by"),
        (one("[2]", 0, 4), 4, "shape [2] lies at bytes 0 to 4"),
        (one("[2]", 8, 0), 8, "shape [2] lies at bytes 8 to 0"),
        (one("[2]", 0, 8), 7, "tensors take 8 bytes, but 7 follow"),
        (one("[2]", 0, 8), 9, "tensors take 8 bytes, but 9 follow"),
        (one("[2]", 4, 12), 12, "`x` starts at byte 4 where"),
        (one("[9223372036854775807, 9]", 0, 8), 8, "does not fit"),
        (
            one("[2]", 0, 8).replace("F32", "F8_E5M2"),
            8,
            "element type F8_E5M2",
        ),
        (
            r#"{"__metadata__":{"x":1}}"#.into(),
            0,
            "an object of texts",
        ),
        (r#"{"__metadata__":"x"}"#.into(), 0, "an object of texts"),
        ("[".repeat(100_000), 0, "not a JSON object"),
    ] {
        let found = problem(&file(&header, data));
        assert!(found.contains(expected), "{found} for {expected}");
    }
    let overlapping = format!(
        "{{{},{}}}",
        tensor("x", "[2]", 0, 8),
        tensor("y", "[2]", 4, 12)
    );
    assert!(problem(&file(&overlapping, 12)).contains("`y` starts at byte 4"));
    assert!(problem(&[255; 16]).contains("header of 18446744073709551615 bytes"));
    assert!(problem(&[]).contains("0 bytes, too few"));
}

/// Eight tensors whose places run up to the largest number: nothing overflows.
#[test]
fn places_beyond_every_file_are_refused() {
    let step = 1_u64 << 61;
    let tensors: Vec<String> = (0..7)
        .map(|index| {
            let shape = format!("[{}]", step / 4);
            tensor(&index.to_string(), &shape, index * step, (index + 1) * step)
        })
        .chain([tensor(
            "last",
            &format!("[{}]", step / 4 - 1),
            7 * step,
            u64::MAX - 3,
        )])
        .collect();
    let found = problem(&file(&format!("{{{}}}", tensors.join(",")), 8));
    assert!(found.contains("but 8 follow"), "{found}");
}

/// Damaged files never panic, and what is accepted fills the file.
#[test]
fn damaged_files_are_refused_or_consistent() {
    let whole = bytes(&example());
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}");
    }
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..20_000 {
        let stream = Stream::new(2, round);
        let mut damaged = whole.clone();
        let position = stream.below(0, damaged.len() as u64) as usize;
        // Digits and JSON's signs make likely headers, any byte makes unlikely ones.
        let likely = b"0123456789[]{},:\" ";
        damaged[position] = match stream.below(1, 2) {
            0 => likely[stream.below(2, likely.len() as u64) as usize],
            _ => stream.bits(20) as u8,
        };
        match read(&damaged) {
            Ok(tensors) => {
                accepted += 1;
                let bytes = 4 * tensors
                    .iter()
                    .map(|(_, array)| array.values().len())
                    .sum::<usize>();
                let header = u64::from_le_bytes(damaged[..8].try_into().unwrap()) as usize;
                assert_eq!(8 + header + bytes, damaged.len());
            }
            Err(Problem::Format(_)) => refused += 1,
            Err(Problem::Io(error)) => panic!("{error}"),
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

/// A file with one tensor `x` of this element type, which holds `count` elements.
fn one(element_type: &str, count: usize, elements: &[u8]) -> Vec<u8> {
    let header = format!(
        r#"{{"x":{{"dtype":"{element_type}","shape":[{count}],"data_offsets":[0,{}]}}}}"#,
        elements.len()
    );
    [file(&header, 0), elements.to_vec()].concat()
}

/// The bytes are those that the formats' standards give for these values.
#[test]
fn other_floats_become_f32() {
    let cases: [(&str, &[u8]); 3] = [
        ("F16", &[0x00, 0x3c, 0x00, 0xc1, 0x00, 0x7c]),
        ("BF16", &[0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f]),
        (
            "F64",
            &[
                0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0x04, 0xc0, 0, 0, 0, 0, 0, 0, 0xf0,
                0x7f,
            ],
        ),
    ];
    for (element_type, elements) in cases {
        let tensors = read(&one(element_type, 3, elements)).unwrap();
        let values = tensors.f32("x", &[3]).unwrap();
        assert_eq!(values, [1.0, -2.5, f32::INFINITY], "{element_type}");
    }
}

#[test]
fn integers_become_u32_if_they_fit() {
    let cases: [(&str, &[u8]); 4] = [
        (
            "I64",
            &[7, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        ),
        ("I32", &[7, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]),
        ("U8", &[7, 0xff]),
        ("BOOL", &[0, 1]),
    ];
    let expected = [[7, u32::MAX], [7, i32::MAX as u32], [7, 255], [0, 1]];
    for ((element_type, elements), expected) in cases.into_iter().zip(expected) {
        let tensors = read(&one(element_type, 2, elements)).unwrap();
        assert_eq!(tensors.u32("x", &[2]).unwrap(), expected, "{element_type}");
    }
    assert_eq!(
        problem(&one("I32", 1, &[0xfe, 0xff, 0xff, 0xff])),
        "tensor `x` holds -2, and integers are read as u32"
    );
    let too_large = [0, 0, 0, 0, 1, 0, 0, 0];
    assert!(problem(&one("I64", 1, &too_large)).contains("4294967296"));
}
