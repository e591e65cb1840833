//! Percent-decoding that fails on invalid input.

/// Decodes `%XX`, and in a query `+` as a space. `None` for an invalid escape, for text that is not
/// UTF-8, and for a NUL character.
pub(crate) fn decode(text: &str, is_query: bool) -> Option<String> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+' | 0)) {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            b'+' if is_query => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::decode;

    #[test]
    fn escapes_are_decoded_or_refused() {
        let cases = [
            ("abc", Some("abc")),
            ("a%20b", Some("a b")),
            ("a+b", Some("a b")),
            ("%C3%A4", Some("ä")),
            ("%c3", None),
            ("%", None),
            ("%4", None),
            ("%g0", None),
            ("a%00", None),
        ];
        for (text, expected) in cases {
            assert_eq!(decode(text, true).as_deref(), expected, "{text}");
        }
        assert_eq!(decode("a+b", false).as_deref(), Some("a+b"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC*") {
            let _ = decode(&text, true);
            let _ = decode(&text, false);
        }
    }
}
