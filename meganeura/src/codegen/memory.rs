//! Which buffers a shader binds, and how it reads and writes their elements.

use crate::ir::DType;
use crate::schedule::kernel::{Access, BufferId};

/// The buffers of one shader. Every access is announced with [`Memory::add`] before text is
/// written, because a buffer is declared as vectors only when all accesses allow it.
pub(super) struct Memory<'a> {
    same_place: &'a dyn Fn(BufferId, BufferId) -> bool,
    slots: Vec<Slot>,
    /// Whether anything is stored as bf16.
    rounds: bool,
}

/// Floats as what bf16 holds of them.
const ROUND: &str = "
fn rounded1(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let nearest = bits + 0x7fffu + ((bits >> 16u) & 1u);
    let is_number = (bits & 0x7fffffffu) <= 0x7f800000u;
    return bitcast<f32>(select(bits | 0x400000u, nearest, is_number) & 0xffff0000u);
}
fn rounded4(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(rounded1(x.x), rounded1(x.y), rounded1(x.z), rounded1(x.w));
}
";

struct Slot {
    buffers: Vec<BufferId>,
    writes: bool,
    floats: bool,
    words: bool,
    vectors: bool,
}

impl Slot {
    /// Accessed both as floats and as integers, it is declared as integers.
    fn element(&self) -> &'static str {
        match (self.words, self.vectors) {
            (false, false) => "f32",
            (false, true) => "vec4<f32>",
            (true, false) => "u32",
            (true, true) => "vec4<u32>",
        }
    }
}

/// Whether four adjacent columns are one aligned vector in memory.
pub(super) fn is_vector(access: &Access) -> bool {
    access.column_stride == 1
        && access.offset.is_multiple_of(4)
        && access.strides.iter().all(|stride| stride.is_multiple_of(4))
}

impl<'a> Memory<'a> {
    pub fn new(same_place: &'a dyn Fn(BufferId, BufferId) -> bool) -> Memory<'a> {
        Memory {
            same_place,
            slots: Vec::new(),
            rounds: false,
        }
    }

    /// Announce an access; `vector` when it can be made as aligned vectors of four.
    pub fn add(&mut self, access: &Access, writes: bool, vector: bool) {
        let words = access.dtype == DType::U32;
        self.rounds |= writes && access.dtype == DType::BF16;
        let index = self.find(access.buffer).unwrap_or_else(|| {
            self.slots.push(Slot {
                buffers: Vec::new(),
                writes: false,
                floats: false,
                words: false,
                vectors: true,
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        if !slot.buffers.contains(&access.buffer) {
            slot.buffers.push(access.buffer);
        }
        slot.writes |= writes;
        slot.floats |= !words;
        slot.words |= words;
        slot.vectors &= vector;
    }

    fn find(&self, buffer: BufferId) -> Option<usize> {
        self.slots.iter().position(|slot| {
            slot.buffers.contains(&buffer)
                || slot
                    .buffers
                    .iter()
                    .any(|&other| (self.same_place)(buffer, other))
        })
    }

    fn slot(&self, buffer: BufferId) -> (usize, &Slot) {
        let index = self.find(buffer).expect("accesses are announced");
        (index, &self.slots[index])
    }

    /// Whether two buffers are bound as one.
    pub fn is_same(&self, a: BufferId, b: BufferId) -> bool {
        a == b || (self.same_place)(a, b)
    }

    /// The buffers of each slot, and whether it is written.
    pub fn slots(&self) -> impl Iterator<Item = (&[BufferId], bool)> {
        self.slots
            .iter()
            .map(|slot| (slot.buffers.as_slice(), slot.writes))
    }

    /// The variables' declarations.
    pub fn declarations(&self) -> String {
        let lines = self.slots.iter().enumerate().map(|(index, slot)| {
            let mode = if slot.writes { "read_write" } else { "read" };
            format!(
                "var<storage, {mode}> b{index}: array<{}>;\n",
                slot.element()
            )
        });
        let rounding = if self.rounds { ROUND } else { "" };
        lines.chain([rounding.to_owned()]).collect()
    }

    /// Whether a buffer is declared as vectors.
    pub fn is_vectors(&self, buffer: BufferId) -> bool {
        self.slot(buffer).1.vectors
    }

    /// The variable of a buffer.
    pub fn variable(&self, buffer: BufferId) -> String {
        format!("b{}", self.slot(buffer).0)
    }

    /// The element (or vector, where the buffer is declared so) at an index, as a float.
    pub fn load(&self, access: &Access, index: &str) -> String {
        let (number, slot) = self.slot(access.buffer);
        let element = format!("b{number}[{index}]");
        let real = if slot.vectors { "vec4<f32>" } else { "f32" };
        match (access.dtype == DType::U32, slot.words) {
            (true, _) => format!("{real}({element})"),
            (false, true) => format!("bitcast<{real}>({element})"),
            (false, false) => element,
        }
    }

    /// The statement that stores a float (or a vector of them) at an index.
    pub fn store(&self, access: &Access, index: &str, value: &str) -> String {
        let (number, slot) = self.slot(access.buffer);
        let word = if slot.vectors { "vec4<u32>" } else { "u32" };
        let lanes = if slot.vectors { 4 } else { 1 };
        let rounded = match access.dtype {
            DType::BF16 => format!("rounded{lanes}({value})"),
            _ => value.to_owned(),
        };
        let value = rounded.as_str();
        let value = match (access.dtype == DType::U32, slot.words) {
            (true, _) => format!("{word}({value})"),
            (false, true) => format!("bitcast<{word}>({value})"),
            (false, false) => value.to_owned(),
        };
        format!("b{number}[{index}] = {value};")
    }
}
