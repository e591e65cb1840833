//! Paths of values. One is a chain of borrowed elements, and becomes a text only for an error that
//! is kept: a name can be as long as an object, and so the paths of all values below it would fill
//! the memory.

/// The path of a value.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Start(&'a str),
    /// `above.name`, without the dot at the start of a path.
    Field(&'a Self, &'a str),
    /// `above.name`, with the dot also at the start.
    Dotted(&'a Self, &'a str),
    /// `above[key]`.
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl Path<'_> {
    /// True if this is the object itself.
    pub(crate) fn is_root(self) -> bool {
        matches!(self, Self::Start(""))
    }

    pub(crate) fn text(self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(self, text: &mut String) {
        match self {
            Self::Start(start) => text.push_str(start),
            Self::Field(above, name) | Self::Dotted(above, name) => {
                above.write(text);
                if !text.is_empty() || matches!(self, Self::Dotted(..)) {
                    text.push('.');
                }
                text.push_str(name);
            }
            Self::Key(above, key) => {
                above.write(text);
                text.push_str(&format!("[{key}]"));
            }
            Self::Index(above, index) => {
                above.write(text);
                text.push_str(&format!("[{index}]"));
            }
        }
    }
}
