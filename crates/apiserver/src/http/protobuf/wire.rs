//! Protobuf's wire format: a sequence of numbered fields.

/// A field's value, as the wire format encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(super) fn number(self) -> Result<u64, String> {
        match self {
            Field::Number(number) => Ok(number),
            Field::Bytes(_) => Err("expected a number, found bytes".to_owned()),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            Field::Number(_) => Err("expected bytes, found a number".to_owned()),
        }
    }
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next field with its number; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| "a field number is out of range")?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| truncated())?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Bytes(self.take(4)?),
            other => return Err(format!("the wire type {other} is not supported")),
        };
        Ok(Some((number, field)))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number is too long".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn truncated() -> String {
    "the body ends too early".to_owned()
}
