//! The few instructions that recorded loops are made of, as bytes.
//!
//! The encoding is that of the processor's manual: a vector instruction has a prefix of four
//! bytes (EVEX) with the high bits of its registers, the mask, and the opcode's table.

/// A vector register, 0 to 31.
pub(super) type Vector = u8;
/// A mask register; 0 is none.
pub(super) type Mask = u8;

/// The mask of the elements that are left at the end.
pub(super) const REST: Mask = 1;
/// The masks of the pairs that are left at the end, two vectors of them.
pub(super) const REST_OF_PAIRS: [Mask; 2] = [2, 3];
/// Masks for comparisons, where those of pairs are not needed.
pub(super) const MASKS: std::ops::Range<Mask> = 2..8;

/// General registers that hold the addresses of streams: all but the index (0), the rest of
/// the count (6), a register for odd jobs (2), the table (7) and the stack (4).
pub(super) const BASES: [u8; 11] = [1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15];
/// Those of them, and the one for odd jobs, that must be as before afterwards; the latter holds
/// where folds go.
const SAVED: [u8; 7] = [3, 5, 12, 13, 14, 15, 2];

/// The last operand of a vector instruction.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Vector(Vector),
    /// At a base register plus the index, so many vectors further.
    Stream(u8, u8),
    /// At a base register plus twice the index, so many vectors further.
    Pairs(u8, u8),
    /// So many bytes after the address in register 0.
    Pointer(i32),
    /// So many vectors after where folds go.
    Folded(u8),
    /// A number in the pool.
    Pool(usize),
    /// A number in the pool, in all lanes.
    Spread(usize),
}

/// The tables of opcodes, with the prefix that selects among them.
#[derive(Clone, Copy)]
pub(super) struct Opcode {
    map: u8,
    prefix: u8,
    code: u8,
    immediate: Option<u8>,
}

const fn opcode(map: u8, prefix: u8, code: u8) -> Opcode {
    Opcode {
        map,
        prefix,
        code,
        immediate: None,
    }
}

const fn with(map: u8, prefix: u8, code: u8, immediate: u8) -> Opcode {
    Opcode {
        map,
        prefix,
        code,
        immediate: Some(immediate),
    }
}

pub(super) const LOAD: Opcode = opcode(1, 0, 0x10);
pub(super) const STORE: Opcode = opcode(1, 0, 0x11);
pub(super) const MOVE: Opcode = opcode(1, 0, 0x28);
pub(super) const BROADCAST: Opcode = opcode(2, 1, 0x18);
pub(super) const ADD: Opcode = opcode(1, 0, 0x58);
pub(super) const SUBTRACT: Opcode = opcode(1, 0, 0x5c);
pub(super) const MULTIPLY: Opcode = opcode(1, 0, 0x59);
pub(super) const DIVIDE: Opcode = opcode(1, 0, 0x5e);
pub(super) const LARGER: Opcode = opcode(1, 0, 0x5f);
pub(super) const SMALLER: Opcode = opcode(1, 0, 0x5d);
pub(super) const SQRT: Opcode = opcode(1, 0, 0x51);
pub(super) const AND: Opcode = opcode(1, 0, 0x54);
/// `!a & b`
pub(super) const AND_NOT: Opcode = opcode(1, 0, 0x55);
pub(super) const OR: Opcode = opcode(1, 0, 0x56);
pub(super) const XOR: Opcode = opcode(1, 0, 0x57);
/// `to · a + b`
pub(super) const MULTIPLY_ADD: Opcode = opcode(2, 1, 0xa8);
/// `to · b + a`
pub(super) const MULTIPLY_ADD_LAST: Opcode = opcode(2, 1, 0x98);
pub(super) const BLEND: Opcode = opcode(2, 1, 0x65);
pub(super) const SCALE: Opcode = opcode(2, 1, 0x2c);
pub(super) const EXPONENT: Opcode = opcode(2, 1, 0x42);
/// In [1, 2), without a sign.
pub(super) const MANTISSA: Opcode = with(3, 1, 0x26, 4);
/// To the nearest whole number, ties to even.
pub(super) const ROUND: Opcode = with(3, 1, 0x08, 0);
pub(super) const EQUAL: Opcode = with(1, 0, 0xc2, 0);
pub(super) const LESS: Opcode = with(1, 0, 0xc2, 0x11);
pub(super) const LESS_EQUAL: Opcode = with(1, 0, 0xc2, 0x12);
pub(super) const UNORDERED: Opcode = with(1, 0, 0xc2, 3);
/// The halves of a vector, of its halves, and so on in exchange.
pub(super) const EXCHANGES: [Opcode; 4] = [
    with(3, 1, 0x23, 0x4e),
    with(3, 1, 0x23, 0xb1),
    with(1, 0, 0xc6, 0x4e),
    with(1, 0, 0xc6, 0xb1),
];

/// Bytes as whole numbers.
pub(super) const WIDEN: Opcode = opcode(2, 1, 0x31);
/// Lanes of `to` and `b`, by their numbers in `a`.
pub(super) const PERMUTE: Opcode = opcode(2, 1, 0x7f);

/// What says that an address has the index twice.
const TWICE: u8 = 0x40;

/// A condition on the last comparison of numbers without a sign.
#[derive(Clone, Copy)]
pub(super) enum Condition {
    Below = 0x82,
    NotBelow = 0x83,
    Zero = 0x84,
}

/// A place in the code that jumps go to.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// Code being written.
#[derive(Default)]
pub(super) struct Assembler {
    bytes: Vec<u8>,
    /// Four bytes each that become the distance to a number of the pool, from where their
    /// instruction ends.
    pooled: Vec<(usize, usize, usize)>,
    pool: Vec<u32>,
}

impl Assembler {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// `to = op(a, b)`, only where `mask` holds; elsewhere 0 if `zeros`, else as before.
    pub(super) fn masked(
        &mut self,
        opcode: Opcode,
        to: u8,
        a: Vector,
        b: Operand,
        mask: Mask,
        zeros: bool,
    ) {
        let (base, index_high) = match b {
            Operand::Vector(register) => (register & 15, register >> 4),
            Operand::Stream(base, _) | Operand::Pairs(base, _) => (base, 0),
            _ => (0, 0),
        };
        let high = |register: u8, bit: u8| (!register >> bit) & 1;
        let spread = u8::from(matches!(b, Operand::Spread(_)));
        self.put(&[
            0x62,
            high(to, 3) << 7
                | (index_high ^ 1) << 6
                | high(base, 3) << 5
                | high(to, 4) << 4
                | opcode.map,
            (!a & 15) << 3 | 4 | opcode.prefix,
            u8::from(zeros && mask > 0) << 7 | 2 << 5 | spread << 4 | high(a, 4) << 3 | mask,
            opcode.code,
        ]);
        let reg = (to & 7) << 3;
        match b {
            Operand::Vector(register) => self.put(&[0xc0 | reg | register & 7]),
            Operand::Stream(base, vectors) => self.put(&[0x44 | reg, base & 7, vectors]),
            Operand::Pairs(base, vectors) => self.put(&[0x44 | reg, TWICE | base & 7, vectors]),
            Operand::Pointer(bytes) => {
                self.put(&[0x80 | reg]);
                self.put(&bytes.to_le_bytes());
            }
            Operand::Folded(vectors) => self.put(&[0x42 | reg, vectors]),
            Operand::Pool(number) | Operand::Spread(number) => {
                self.put(&[0x05 | reg]);
                let (at, immediate) = (self.bytes.len(), opcode.immediate.iter().len());
                self.pooled.push((at, number, at + 4 + immediate));
                self.put(&[0; 4]);
            }
        }
        if let Some(immediate) = opcode.immediate {
            self.put(&[immediate]);
        }
    }

    /// `to = op(a, b)`
    pub(super) fn three(&mut self, opcode: Opcode, to: u8, a: Vector, b: Operand) {
        self.masked(opcode, to, a, b, 0, false);
    }

    /// Asks for a line at a base register plus the index (or `twice` that), so many bytes further.
    pub(super) fn fetch(&mut self, base: u8, twice: bool, bytes: u32, written: bool) {
        let scale = if twice { TWICE } else { 0 };
        let (code, kind) = if written { (0x0d, 1) } else { (0x18, 1) };
        if base > 7 {
            self.put(&[0x41]);
        }
        self.put(&[0x0f, code, 0x84 | kind << 3, scale | base & 7]);
        self.put(&bytes.to_le_bytes());
    }

    /// `to = op(b)`
    pub(super) fn two(&mut self, opcode: Opcode, to: u8, b: Operand) {
        self.three(opcode, to, 0, b);
    }

    /// The place of a number in the pool.
    pub(super) fn number(&mut self, bits: u32) -> Operand {
        Operand::Pool(self.pooled_at(bits))
    }

    /// A number in the pool, in all lanes.
    pub(super) fn spread(&mut self, bits: u32) -> Operand {
        Operand::Spread(self.pooled_at(bits))
    }

    fn pooled_at(&mut self, bits: u32) -> usize {
        let known = self.pool.iter().position(|&other| other == bits);
        known.unwrap_or_else(|| {
            self.pool.push(bits);
            self.pool.len() - 1
        })
    }

    /// The place of 16 bytes in the pool.
    pub(super) fn bytes(&mut self, bytes: [u8; 16]) -> Operand {
        let first = self.pool.len();
        for word in bytes.chunks_exact(4) {
            let word = [word[0], word[1], word[2], word[3]];
            self.pool.push(u32::from_le_bytes(word));
        }
        Operand::Pool(first)
    }

    /// Saves what must be as before afterwards.
    pub(super) fn enter(&mut self) {
        for register in SAVED {
            self.stack(0x50, register);
        }
    }

    /// A base register (or 0) = the pointer at this place of the table.
    pub(super) fn pointer(&mut self, to: u8, slot: u16) {
        self.put(&[0x48 | (to >> 3) << 2, 0x8b, 0x87 | (to & 7) << 3]);
        self.put(&(u32::from(slot) * 8).to_le_bytes());
    }

    /// The index = 0.
    pub(super) fn begin(&mut self) {
        self.put(&[0x31, 0xc0]);
    }

    /// A label here, where the processor likes loops to begin.
    pub(super) fn loop_head(&mut self) -> Label {
        while !self.bytes.len().is_multiple_of(32) {
            self.put(&[0x90]);
        }
        Label(self.bytes.len())
    }

    /// The index moves on by so many vectors, and fewer elements are left.
    pub(super) fn advance(&mut self, vectors: u8) {
        self.put(&[0x48, 0x05]);
        self.put(&(u32::from(vectors) * 64).to_le_bytes());
        self.put(&[0x48, 0x81, 0xee]);
        self.put(&(u32::from(vectors) * 16).to_le_bytes());
    }

    /// Compares the elements that are left with so many vectors.
    pub(super) fn compare(&mut self, vectors: u8) {
        self.put(&[0x48, 0x81, 0xfe]);
        self.put(&(u32::from(vectors) * 16).to_le_bytes());
    }

    /// Jumps back.
    pub(super) fn jump_back(&mut self, condition: Condition, to: Label) {
        self.put(&[0x0f, condition as u8]);
        let distance = to.0 as i64 - (self.bytes.len() as i64 + 4);
        self.put(&(distance as i32).to_le_bytes());
    }

    /// Jumps to a place that is yet to come.
    pub(super) fn jump(&mut self, condition: Condition) -> Label {
        self.put(&[0x0f, condition as u8, 0, 0, 0, 0]);
        Label(self.bytes.len())
    }

    /// Where a jump goes.
    pub(super) fn land(&mut self, from: Label) {
        let distance = (self.bytes.len() - from.0) as u32;
        self.bytes[from.0 - 4..from.0].copy_from_slice(&distance.to_le_bytes());
    }

    /// The mask `REST` = the first element only.
    pub(super) fn single(&mut self) {
        self.mask(1);
    }

    /// The mask `REST` = these elements.
    pub(super) fn mask(&mut self, elements: u16) {
        // mov edx, …; kmovw k1, edx
        self.put(&[0xba]);
        self.put(&u32::from(elements).to_le_bytes());
        self.put(&[0xc5, 0xf8, 0x92, 0xca]);
    }

    /// The mask of the elements that are left; sets the condition `Zero` if there are none.
    pub(super) fn rest(&mut self) {
        // mov edx, −1; bzhi edx, edx, esi; kmovw k1, edx; test rsi, rsi
        self.put(&[0xba, 0xff, 0xff, 0xff, 0xff]);
        self.put(&[0xc4, 0xe2, 0x48, 0xf5, 0xd2]);
        self.put(&[0xc5, 0xf8, 0x92, 0xca]);
        self.put(&[0x48, 0x85, 0xf6]);
    }

    /// The masks `REST_OF_PAIRS` of the elements that are left, of which there are twice as many
    /// as the count says; the count is lost.
    pub(super) fn rest_of_pairs(&mut self) {
        // add esi, esi; mov edx, −1; bzhi edx, edx, esi; kmovw k2, edx; shr edx, 16; kmovw k3, edx
        self.put(&[0x01, 0xf6]);
        self.put(&[0xba, 0xff, 0xff, 0xff, 0xff]);
        self.put(&[0xc4, 0xe2, 0x48, 0xf5, 0xd2]);
        self.put(&[0xc5, 0xf8, 0x92, 0xd2]);
        self.put(&[0xc1, 0xea, 16]);
        self.put(&[0xc5, 0xf8, 0x92, 0xda]);
    }

    /// Where folds go is known again.
    pub(super) fn folds(&mut self) {
        self.stack(0x58, 2);
    }

    /// Restores everything (but what `folds` has) and returns.
    pub(super) fn leave(&mut self) {
        for register in SAVED.into_iter().rev().skip(1) {
            self.stack(0x58, register);
        }
        // vzeroupper; ret
        self.put(&[0xc5, 0xf8, 0x77, 0xc3]);
    }

    fn stack(&mut self, code: u8, register: u8) {
        if register > 7 {
            self.put(&[0x41]);
        }
        self.put(&[code | register & 7]);
    }

    /// The code with its pool behind it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        while !self.bytes.len().is_multiple_of(4) {
            self.put(&[0xcc]);
        }
        let pool = self.bytes.len();
        for (at, number, end) in self.pooled {
            let distance = (pool + number * 4 - end) as u32;
            self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        for bits in self.pool {
            self.bytes.extend_from_slice(&bits.to_le_bytes());
        }
        self.bytes
    }
}
