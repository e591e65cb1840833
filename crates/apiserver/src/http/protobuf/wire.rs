//! Protobuf's wire format: a sequence of numbered fields.

use prost::encoding::{WireType, decode_key, decode_varint};

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
        let (number, wire_type) = decode_key(&mut self.rest).map_err(|error| error.to_string())?;
        let field = match wire_type {
            WireType::Varint => Field::Number(self.varint()?),
            WireType::SixtyFourBit => Field::Bytes(self.take(8)?),
            WireType::LengthDelimited => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            WireType::ThirtyTwoBit => Field::Bytes(self.take(4)?),
            WireType::StartGroup | WireType::EndGroup => {
                return Err("groups of fields are not supported".to_owned());
            }
        };
        Ok(Some((number, field)))
    }

    fn varint(&mut self) -> Result<u64, String> {
        decode_varint(&mut self.rest).map_err(|error| error.to_string())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let length = usize::try_from(length).ok();
        let (taken, rest) = length
            .and_then(|length| self.rest.split_at_checked(length))
            .ok_or("the body ends too early")?;
        self.rest = rest;
        Ok(taken)
    }
}
