//! The types that a Go package declares, with their comments. The files are formatted by gofmt, so
//! a declaration begins its line, a field has a line of its own, and no parser of the language is
//! needed. A field is parsed when it is asked for: only those of API types have a known form.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, bail};
use regex::Regex;

/// A package of a Go module.
#[derive(Default)]
pub(super) struct Package {
    /// The name in its `package` clauses: `v1`.
    pub name: String,
    pub types: BTreeMap<String, Declaration>,
    /// The constants that are strings.
    pub constants: BTreeMap<String, String>,
}

/// The declaration of a type.
pub(super) struct Declaration {
    pub comment: Comment,
    pub form: Form,
    /// The paths of imported packages by the names that the file has for them.
    pub imports: Rc<BTreeMap<String, String>>,
}

pub(super) enum Form {
    Struct(Vec<FieldLine>),
    /// The text of another type.
    Other(String),
}

/// A line of a struct.
pub(super) struct FieldLine {
    /// `types.go:12`
    place: String,
    text: String,
    comment: Comment,
}

/// A field of a struct.
pub(super) struct Field<'a> {
    /// `None` if the field is embedded.
    pub name: Option<&'a str>,
    pub go_type: Type,
    pub comment: &'a Comment,
    tags: &'a str,
}

#[derive(Debug, PartialEq)]
pub(super) enum Type {
    /// The name of a type, and that of its package if it is imported.
    Named(Option<String>, String),
    Pointer(Box<Self>),
    List(Box<Self>),
    /// A map, whose keys are strings in JSON.
    Map(Box<Self>),
}

/// The comment above a declaration or a field, without the slashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Comment(Vec<String>);

impl Package {
    /// Reads the files of a package, without tests and most of what is generated.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut package = Self::default();
        let entries =
            std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_generated = name.starts_with("zz_") || name == "generated.pb.go";
            if name.ends_with(".go") && !name.ends_with("_test.go") && !is_generated {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("read {}", path.display()))?;
                package.add(&path.display().to_string(), &text)?;
            }
        }
        Ok(package)
    }

    /// Adds the declarations of a file.
    pub(super) fn add(&mut self, path: &str, text: &str) -> anyhow::Result<()> {
        let imports = Rc::new(imports(text)?);
        let constant = Regex::new(r#"^\s*(?:const )?(\w+)(?:\s+\w+)?\s+= "([^"]*)"$"#)?;
        let mut comment = Comment::default();
        let mut lines = code_lines(text).enumerate();
        while let Some((_, line)) = lines.next() {
            if let Some(text) = line.strip_prefix("//") {
                comment.push(text);
                continue;
            }
            let comment = std::mem::take(&mut comment);
            if let Some(name) = line.strip_prefix("package ") {
                name.clone_into(&mut self.name);
            } else if let Some((name, of)) =
                line.strip_prefix("type ").and_then(|rest| rest.split_once(' '))
            {
                let form = match of {
                    "struct {" => Form::Struct(field_lines(path, &mut lines)),
                    "struct{}" => Form::Struct(Vec::new()),
                    of => Form::Other(of.to_owned()),
                };
                let imports = Rc::clone(&imports);
                self.types.insert(name.to_owned(), Declaration { comment, form, imports });
            } else if let Some(found) = constant.captures(line) {
                self.constants.insert(found[1].to_owned(), found[2].to_owned());
            }
        }
        Ok(())
    }
}

/// The lines of a file; those of comments between `/*` and `*/` are empty.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_comment = false;
    text.lines().map(move |line| {
        is_comment |= line.trim_start().starts_with("/*");
        let code = if is_comment { "" } else { line };
        is_comment &= !line.ends_with("*/");
        code
    })
}

/// The lines of a struct up to its closing brace.
fn field_lines<'a>(
    path: &str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Vec<FieldLine> {
    let mut fields = Vec::new();
    let mut comment = Comment::default();
    for (index, line) in lines.take_while(|(_, line)| *line != "}") {
        let text = line.trim();
        if let Some(text) = text.strip_prefix("//") {
            comment.push(text);
            continue;
        }
        let comment = std::mem::take(&mut comment);
        if !text.is_empty() {
            let place = format!("{path}:{}", index + 1);
            fields.push(FieldLine { place, text: text.to_owned(), comment });
        }
    }
    fields
}

/// The imports of a file: `metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"`.
fn imports(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let import = Regex::new(r#"(?m)^(?:\t|import )(?:(\w+) )?"([\w./-]+)"$"#)?;
    let of = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    Ok(import
        .captures_iter(text)
        .map(|found| {
            let path = found[2].to_owned();
            (found.get(1).map_or_else(|| of(&path), |name| name.as_str().to_owned()), path)
        })
        .collect())
}

impl FieldLine {
    pub(super) fn parse(&self) -> anyhow::Result<Field<'_>> {
        let (declared, rest) = self.text.split_once('`').unwrap_or((&self.text, ""));
        let tags = rest.split('`').next().unwrap_or_default();
        let declared = declared.split("//").next().unwrap_or_default();
        let words: Vec<&str> = declared.split_whitespace().collect();
        let (name, go_type) = match words.as_slice() {
            [go_type] => (None, go_type),
            [name, go_type] => (Some(*name), go_type),
            _ => bail!("not a field of an API type: {}", self.text),
        };
        Ok(Field { name, go_type: Type::parse(go_type)?, tags, comment: &self.comment })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }
}

impl<'a> Field<'a> {
    /// The value of a tag: `name,omitempty` of `json`; empty if there is none.
    pub(super) fn tag(&self, name: &str) -> &'a str {
        let start = format!("{name}:\"");
        let mut tags = self.tags.split(' ').filter_map(|tag| tag.strip_prefix(&start));
        tags.next().and_then(|value| value.strip_suffix('"')).unwrap_or_default()
    }
}

impl Type {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let inner = |text| Self::parse(text).map(Box::new);
        if let Some(text) = text.strip_prefix('*') {
            return Ok(Self::Pointer(inner(text)?));
        }
        if let Some(text) = text.strip_prefix("[]") {
            return Ok(Self::List(inner(text)?));
        }
        if let Some((_, text)) = text.strip_prefix("map[").and_then(|text| text.split_once(']')) {
            return Ok(Self::Map(inner(text)?));
        }
        let is_name = |text: &str| !text.is_empty() && text.chars().all(char::is_alphanumeric);
        match text.split_once('.') {
            None if is_name(text) => Ok(Self::Named(None, text.to_owned())),
            Some((package, name)) if is_name(package) && is_name(name) => {
                Ok(Self::Named(Some(package.to_owned()), name.to_owned()))
            }
            _ => bail!("not the type of an API field: {text}"),
        }
    }
}

impl Comment {
    fn push(&mut self, text: &str) {
        self.0.push(text.strip_prefix(' ').unwrap_or(text).trim_end().to_owned());
    }

    /// The values of a marker: `name` of `+listMapKey=name`, empty of `+optional`.
    pub(super) fn markers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(move |line| match line.strip_prefix('+')?.strip_prefix(name)? {
            "" => Some(""),
            rest => rest.strip_prefix('='),
        })
    }

    pub(super) fn marker(&self, name: &str) -> Option<&str> {
        self.markers(name).next()
    }

    /// The text in OpenAPI documents: no markers, no TODOs, nothing after a line `---`. An indented
    /// line stays a line, and an empty one ends a paragraph.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut lines: Vec<&str> = self.0.iter().map(String::as_str).collect();
        lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
        for line in lines.into_iter().take_while(|line| *line != "---") {
            let start = line.trim_start();
            if line.is_empty() {
                text.pop();
                text.push_str("\n\n");
            } else if start.starts_with('+') || start.starts_with("TODO") {
                // For tools, or for upstream's developers.
            } else if line.starts_with([' ', '\t']) {
                text.pop();
                text = text + "\n" + line + "\n";
            } else {
                text = text + line + " ";
            }
        }
        text.trim_matches('\n').trim_matches(' ').to_owned()
    }
}
