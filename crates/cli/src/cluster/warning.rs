//! The HTTP header `Warning`, in which API servers send warnings about requests.

/// The text of a warning: of `299 - "no \"x\""` it is `no "x"`; `None` if it is malformed.
pub(super) fn text(header: &str) -> Option<String> {
    let (_code, rest) = header.split_once(' ')?;
    let (_agent, quoted) = rest.split_once(' ')?;
    let mut letters = quoted.strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_unquoted() {
        for (header, expected) in [
            (
                r#"299 - "would violate PodSecurity \"restricted:latest\"""#,
                Some(r#"would violate PodSecurity "restricted:latest""#),
            ),
            (r#"299 - "a \\ b" "Mon, 23 Nov 2026 12:00:00 GMT""#, Some(r"a \ b")),
            (r#"299 - "unterminated"#, None),
            ("299", None),
        ] {
            assert_eq!(text(header).as_deref(), expected, "{header}");
        }
    }
}
