//! Sentences put together at compile time.

use super::{Dim, Dims};

const CAPACITY: usize = 320;

/// A sentence that a shape rule says, put together at compile time.
///
/// The reader sees it after the layer's name, so it starts with a verb:
/// ``layer `half` cannot halve [batch, 3] (`x`)``.
///
/// ```
/// use meganeura::walk::{Dim, Dims, Message};
///
/// const WHY: Message = Message::new("cannot halve ").dims(&Dims::of(&[Dim::free("batch"), Dim::of(3)]));
/// assert_eq!(WHY.as_str(), "cannot halve [batch, 3]");
/// ```
#[derive(Clone, Copy)]
pub struct Message {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl Message {
    /// Nothing to say.
    pub const EMPTY: Message = Message {
        bytes: [0; CAPACITY],
        length: 0,
    };

    /// A sentence that starts with `text`.
    #[must_use]
    pub const fn new(text: &str) -> Message {
        Message::EMPTY.text(text)
    }

    /// Whether there is nothing to say.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Goes on with `text`. What does not fit is cut off at a character's end.
    #[must_use]
    pub const fn text(mut self, text: &str) -> Message {
        let mut text = text.as_bytes();
        if text.len() > CAPACITY - self.length {
            let mut end = CAPACITY - self.length;
            // A byte 10xxxxxx continues a character.
            while end > 0 && text[end] & 0xC0 == 0x80 {
                end -= 1;
            }
            text = text.split_at(end).0;
        }
        let (_, free) = self.bytes.split_at_mut(self.length);
        free.split_at_mut(text.len()).0.copy_from_slice(text);
        self.length += text.len();
        self
    }

    /// Goes on with another sentence.
    #[must_use]
    pub const fn message(self, other: &Message) -> Message {
        self.text(other.as_str())
    }

    /// Goes on with a number.
    #[must_use]
    pub const fn number(self, number: usize) -> Message {
        let mut digits = [b'0'; 20];
        let mut start = digits.len() - 1;
        let mut rest = number;
        loop {
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
            start -= 1;
        }
        match core::str::from_utf8(digits.split_at(start).1) {
            Ok(text) => self.text(text),
            Err(_) => self,
        }
    }

    /// Goes on with `count` and the noun in singular or plural: `1 value`, `2 values`.
    #[must_use]
    pub const fn count(self, count: usize, noun: &str) -> Message {
        let message = self.number(count).text(" ").text(noun);
        if count == 1 {
            message
        } else {
            message.text("s")
        }
    }

    /// Goes on with a name as code: `` `name` ``.
    #[must_use]
    pub const fn code(self, name: &str) -> Message {
        self.text("`").text(name).text("`")
    }

    /// Goes on with a dim.
    #[must_use]
    pub const fn dim(self, dim: Dim) -> Message {
        if !dim.is_known() {
            return self.text("?");
        }
        let (scale, offset) = dim.parts();
        let size = offset.unsigned_abs() as usize;
        let Some(name) = dim.name() else {
            let sign = if offset < 0 { "-" } else { "" };
            return self.text(sign).number(size);
        };
        let message = match scale {
            1 => self.text(name),
            _ => self.number(scale as usize).text("*").text(name),
        };
        match offset {
            0 => message,
            1.. => message.text(" + ").number(size),
            _ => message.text(" - ").number(size),
        }
    }

    /// Goes on with the dims of a tensor and the name it goes by: ``[batch, 64] (`x`)``.
    #[must_use]
    pub const fn dims(self, dims: &Dims) -> Message {
        let message = self.bare_dims(dims);
        match dims.name().is_empty() {
            true => message,
            false => message.text(" (").code(dims.name()).text(")"),
        }
    }

    /// Goes on with the dims of a tensor alone: `[batch, 64]`.
    #[must_use]
    pub const fn bare_dims(self, dims: &Dims) -> Message {
        let Some(rank) = dims.rank() else {
            return self.text("[..]");
        };
        let mut message = self.text("[");
        let mut axis = 0;
        while axis < rank {
            if axis > 0 {
                message = message.text(", ");
            }
            message = message.dim(dims.dim(axis));
            axis += 1;
        }
        message.text("]")
    }

    /// What was said so far.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            // Texts are cut at a character's end only.
            Err(_) => "",
        }
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Message({:?})", self.as_str())
    }
}

impl std::fmt::Display for Message {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        self.as_str() == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Message};

    #[test]
    fn numbers_are_written_out() {
        assert_eq!(Message::new("a ").number(0).as_str(), "a 0");
        let largest = Message::EMPTY.number(usize::MAX);
        assert_eq!(largest.as_str(), usize::MAX.to_string());
        assert_eq!(Message::EMPTY.count(1, "value").as_str(), "1 value");
        assert_eq!(Message::EMPTY.count(2, "value").as_str(), "2 values");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(CAPACITY);
        let message = Message::new("x").text(&text);
        assert_eq!(message.as_str().len(), CAPACITY - 1);
        assert!(message.text("more").as_str().starts_with("xé"));
    }
}
