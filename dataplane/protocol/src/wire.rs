//! Fields: reading them from a payload, and appending them.

/// What can be wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The payload ends inside the field.
    #[error("the packet ends inside a field")]
    Truncated,
    /// A varint goes on past its fifth byte.
    #[error("a varint is longer than 5 bytes")]
    VarintTooLong,
    /// A length is negative or longer than the field may be.
    #[error("a field of {length} (at most {limit})")]
    BadLength {
        /// What the prefix said.
        length: i64,
        /// What is allowed.
        limit: usize,
    },
    /// A field has a value that means nothing.
    #[error("{field} is {value}")]
    BadValue {
        /// The field's name.
        field: &'static str,
        /// What it said.
        value: i64,
    },
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// Bytes follow after the last field.
    #[error("{0} bytes after the last field")]
    Trailing(usize),
}

/// Reads fields from a payload, front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of this payload.
    pub fn new(payload: &'a [u8]) -> Self {
        Reader { rest: payload }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_be_bytes(self.array()?))
    }
    /// A signed byte.
    pub fn i8(&mut self) -> Result<i8, WireError> {
        Ok(i8::from_be_bytes(self.array()?))
    }
    /// A byte that is 0 or not.
    pub fn bool(&mut self) -> Result<bool, WireError> {
        Ok(self.u8()? != 0)
    }
    /// Two bytes, big-endian.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }
    /// Two bytes, big-endian, signed.
    pub fn i16(&mut self) -> Result<i16, WireError> {
        Ok(i16::from_be_bytes(self.array()?))
    }
    /// Four bytes, big-endian, signed.
    pub fn i32(&mut self) -> Result<i32, WireError> {
        Ok(i32::from_be_bytes(self.array()?))
    }
    /// Eight bytes, big-endian, signed.
    pub fn i64(&mut self) -> Result<i64, WireError> {
        Ok(i64::from_be_bytes(self.array()?))
    }
    /// Four bytes, IEEE 754.
    pub fn f32(&mut self) -> Result<f32, WireError> {
        Ok(f32::from_be_bytes(self.array()?))
    }
    /// Eight bytes, IEEE 754.
    pub fn f64(&mut self) -> Result<f64, WireError> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// A varint of up to 5 bytes; surplus bits of the fifth are ignored, as the game does.
    pub fn varint(&mut self) -> Result<i32, WireError> {
        let mut value = 0u32;
        for index in 0..5 {
            let byte = self.u8()?;
            value |= u32::from(byte & 0x7f).wrapping_shl(7 * index);
            if byte & 0x80 == 0 {
                return Ok(value as i32);
            }
        }
        Err(WireError::VarintTooLong)
    }

    /// A string of at most `max_chars` UTF-16 units (as the game counts), behind its length in bytes as a varint.
    pub fn string(&mut self, max_chars: usize) -> Result<&'a str, WireError> {
        let length = self.varint()?;
        // A UTF-16 unit takes at most 3 bytes of UTF-8.
        let bytes = usize::try_from(length).ok().filter(|&length| length <= max_chars * 3);
        let bad = WireError::BadLength { length: length.into(), limit: max_chars };
        let text = std::str::from_utf8(self.bytes(bytes.ok_or(bad)?)?).map_err(|_| WireError::NotUtf8)?;
        let chars = text.encode_utf16().count();
        if chars > max_chars {
            return Err(WireError::BadLength { length: chars as i64, limit: max_chars });
        }
        Ok(text)
    }

    /// Checks that nothing is left.
    pub fn finish(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Trailing(self.rest.len())) }
    }
}

/// Appends a varint.
pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    let mut value = value as u32;
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a string behind its length in bytes as a varint.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as i32);
    out.extend_from_slice(text.as_bytes());
}
