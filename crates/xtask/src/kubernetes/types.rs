//! The structs that some types refer to, with what their tags and markers say.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::go::{Comment, Declaration, FieldLine, Form, Package, Type};
use super::special::Special;

/// The types of the API.
pub(super) struct Types {
    /// By the name in the table.
    pub structs: BTreeMap<String, Struct>,
    /// Those with a form of their own, and their descriptions.
    pub special: Vec<(&'static Special, String)>,
}

/// A struct of the API, or a list that is a message in protobuf.
pub(super) struct Struct {
    /// The path of the package, and the name of the type.
    pub go_name: String,
    /// Server-side apply takes the struct for one field.
    pub is_atomic: bool,
    pub description: String,
    pub form: StructForm,
    /// The group, version and kind, if it was asked for.
    pub root: Option<Root>,
}

pub(super) enum StructForm {
    Fields(Vec<Field>),
    /// A list in JSON, and a message with one field in protobuf.
    Items(Shape),
}

/// A type from which others are reached.
#[derive(Clone)]
pub(super) struct Root {
    pub group: String,
    pub version: String,
    pub kind: String,
}

pub(super) struct Field {
    /// The name in JSON; `None` if the fields of the struct are its parent's.
    pub name: Option<String>,
    /// The number in protobuf; 0 if the field is not part of the message.
    pub number: u32,
    pub shape: Shape,
    pub is_pointer: bool,
    pub omitted: Omitted,
    /// OpenAPI documents require the field.
    pub is_required: bool,
    /// The strategy of strategic merge patches, such as `merge`, or `merge,retainKeys`.
    pub patch_strategy: Option<String>,
    pub patch_merge_key: Option<String>,
    pub topology: Option<Topology>,
    pub default: Option<Value>,
    pub description: String,
}

/// When Go's encoder leaves a field out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Omitted {
    Never,
    /// If it is empty, which for a pointer is an absent value.
    IfEmpty,
}

/// A marker for server-side apply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Topology {
    Atomic,
    Granular,
    Set,
    Keyed(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// The path of the package, and the name of the type.
    Struct(String),
    Map(Box<Self>),
    List(Box<Self>),
    /// A string, and the name of its type in Go unless it is `string`.
    Text(Option<String>),
    /// `bool`, `int32`, `int64` or `double`.
    Scalar(&'static str),
    Bytes,
    Special(&'static Special),
}

/// The name of a struct in the table: `core.v1.Pod`, `meta.ObjectMeta`.
pub(super) fn table_name(go_name: &str) -> String {
    let mut parts = go_name.rsplit('/');
    let (last, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match (package, last.split_once('.')) {
        ("meta", Some((_, name))) => format!("meta.{name}"),
        _ => format!("{package}.{last}"),
    }
}

/// Reads the structs that the roots refer to, and those that these refer to. The folder has one
/// module of Go for each of its folders.
pub(super) fn read(folder: &Path, roots: &[Root]) -> anyhow::Result<Types> {
    let mut reader = Reader { folder: folder.to_owned(), ..Reader::default() };
    let mut structs = BTreeMap::new();
    for root in roots {
        let go_name = reader.go_name_of(root)?;
        let mut of = reader.read(&go_name)?;
        of.root = Some(root.clone());
        structs.insert(table_name(&go_name), of);
    }
    while let Some(go_name) = reader.pending.pop_first() {
        if let Entry::Vacant(entry) = structs.entry(table_name(&go_name)) {
            entry.insert(reader.read(&go_name)?);
        }
    }
    let mut special = Vec::new();
    for go_name in std::mem::take(&mut reader.special) {
        let found = Special::of(&go_name).context("only special types are collected")?;
        special.push((found, reader.description(&go_name)?));
    }
    Ok(Types { structs, special })
}

impl Types {
    pub(super) fn count_fields(&self) -> usize {
        self.structs.values().map(|of| of.fields().len()).sum()
    }
}

impl Struct {
    /// None, if it is a list in JSON.
    pub(super) fn fields(&self) -> &[Field] {
        match &self.form {
            StructForm::Fields(fields) => fields,
            StructForm::Items(_) => &[],
        }
    }
}

impl Shape {
    /// The struct of the value, or of its elements.
    pub(super) fn struct_name(&self) -> Option<&str> {
        match self {
            Self::Struct(go_name) => Some(go_name),
            Self::Map(item) | Self::List(item) => item.struct_name(),
            Self::Text(_) | Self::Scalar(_) | Self::Bytes | Self::Special(_) => None,
        }
    }
}

#[derive(Default)]
struct Reader {
    folder: PathBuf,
    packages: BTreeMap<String, Rc<Package>>,
    /// Structs to read.
    pending: BTreeSet<String>,
    /// Special types that were found.
    special: BTreeSet<String>,
}

/// Where a name is used.
struct Scope<'a> {
    /// The path of the package.
    path: &'a str,
    imports: &'a BTreeMap<String, String>,
}

impl Reader {
    /// The name of a root in Go. The types of `meta/v1` belong to every group.
    fn go_name_of(&mut self, root: &Root) -> anyhow::Result<String> {
        let Root { group, version, kind } = root;
        let group = if group.is_empty() { "core" } else { group };
        let package = format!("{}/{version}", group.split('.').next().unwrap_or(group));
        let paths = [
            format!("k8s.io/api/{package}"),
            format!("k8s.io/apiextensions-apiserver/pkg/apis/{package}"),
            format!("k8s.io/kube-aggregator/pkg/apis/{package}"),
            "k8s.io/apimachinery/pkg/apis/meta/v1".to_owned(),
        ];
        for path in paths {
            if self.folder_of(&path)?.is_dir() && self.package(&path)?.types.contains_key(kind) {
                return Ok(format!("{path}.{kind}"));
            }
        }
        bail!("{}: {group}/{version} has no type {kind}", self.folder.display())
    }

    fn folder_of(&self, path: &str) -> anyhow::Result<PathBuf> {
        let module = path.strip_prefix("k8s.io/");
        Ok(self.folder.join(module.with_context(|| format!("{path} is not of Kubernetes"))?))
    }

    fn package(&mut self, path: &str) -> anyhow::Result<Rc<Package>> {
        if let Some(known) = self.packages.get(path) {
            return Ok(Rc::clone(known));
        }
        let package = Rc::new(Package::read(&self.folder_of(path)?)?);
        self.packages.insert(path.to_owned(), Rc::clone(&package));
        Ok(package)
    }

    fn description(&mut self, go_name: &str) -> anyhow::Result<String> {
        let (path, name) = split(go_name)?;
        Ok(declaration(&*self.package(path)?, go_name, name)?.comment.text())
    }

    fn read(&mut self, go_name: &str) -> anyhow::Result<Struct> {
        let (path, name) = split(go_name)?;
        let package = self.package(path)?;
        let Declaration { comment, form, imports } = declaration(&package, go_name, name)?;
        let scope = Scope { path, imports };
        let form = match form {
            Form::Struct(lines) => StructForm::Fields(self.fields(&scope, lines)?),
            Form::Other(text) => match Type::parse(text)? {
                Type::List(item) => StructForm::Items(self.shape(&scope, &item)?),
                _ => bail!("{go_name} is neither a struct nor a list"),
            },
        };
        let is_atomic = comment.marker("structType") == Some("atomic");
        let (go_name, description) = (go_name.to_owned(), comment.text());
        Ok(Struct { go_name, is_atomic, description, form, root: None })
    }

    fn fields(&mut self, scope: &Scope<'_>, lines: &[FieldLine]) -> anyhow::Result<Vec<Field>> {
        let mut fields = Vec::new();
        for line in lines {
            let found = self.field(scope, line);
            fields.extend(found.with_context(|| line.place().to_owned())?);
        }
        fields.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        Ok(fields)
    }

    /// The fields of a line: one, those of a struct that is no message of its own, or none.
    fn field(&mut self, scope: &Scope<'_>, line: &FieldLine) -> anyhow::Result<Vec<Field>> {
        let field = line.parse()?;
        let mut json = field.tag("json").split(',');
        let name = json.next().unwrap_or_default();
        if name == "-" {
            return Ok(Vec::new());
        }
        let is_embedded = name.is_empty() && field.name.is_none();
        ensure!(is_embedded || !name.is_empty(), "the field has no name in JSON");
        let number = match field.tag("protobuf").split(',').nth(1) {
            Some(number) => number.parse().context("the number in protobuf")?,
            None => 0,
        };
        if is_embedded && number == 0 {
            return self.fields_of(&go_name(scope, &field.go_type)?);
        }
        let options: Vec<&str> = json.collect();
        let is_pointer = matches!(field.go_type, Type::Pointer(_));
        let shape = self.shape(scope, &field.go_type)?;
        let omitted = Omitted::of(&options, &shape, is_pointer);
        let comment = field.comment;
        let tag = |name| Some(field.tag(name)).filter(|tag| !tag.is_empty()).map(str::to_owned);
        Ok(vec![Field {
            name: (!is_embedded).then(|| name.to_owned()),
            number,
            is_pointer,
            omitted,
            is_required: is_required(&options, comment),
            patch_strategy: tag("patchStrategy"),
            patch_merge_key: tag("patchMergeKey"),
            topology: Topology::of(comment)?,
            default: self.declared_default(scope, comment)?,
            description: comment.text(),
            shape,
        }])
    }

    /// The fields of an embedded struct, which are not part of the message.
    fn fields_of(&mut self, go_name: &str) -> anyhow::Result<Vec<Field>> {
        match self.read(go_name)?.form {
            StructForm::Fields(fields) => {
                Ok(fields.into_iter().map(|field| Field { number: 0, ..field }).collect())
            }
            StructForm::Items(_) => bail!("{go_name} is embedded and no struct"),
        }
    }

    fn shape(&mut self, scope: &Scope<'_>, of: &Type) -> anyhow::Result<Shape> {
        Ok(match of {
            Type::Pointer(item) => self.shape(scope, item)?,
            Type::List(item) if **item == Type::Named(None, "byte".to_owned()) => Shape::Bytes,
            Type::List(item) => Shape::List(Box::new(self.shape(scope, item)?)),
            Type::Map(item) => Shape::Map(Box::new(self.shape(scope, item)?)),
            Type::Named(None, name) => match name.as_str() {
                "string" => Shape::Text(None),
                "bool" => Shape::Scalar("bool"),
                "int32" => Shape::Scalar("int32"),
                "int64" => Shape::Scalar("int64"),
                "float64" => Shape::Scalar("double"),
                _ => self.named(&go_name(scope, of)?)?,
            },
            Type::Named(Some(_), _) => self.named(&go_name(scope, of)?)?,
        })
    }

    fn named(&mut self, go_name: &str) -> anyhow::Result<Shape> {
        if let Some(special) = Special::of(go_name) {
            self.special.insert(go_name.to_owned());
            return Ok(Shape::Special(special));
        }
        let (path, name) = split(go_name)?;
        let package = self.package(path)?;
        let Declaration { form, comment, imports } = declaration(&package, go_name, name)?;
        let of = match form {
            // A list with this marker is a message in protobuf.
            Form::Other(text) if comment.marker("protobuf.nullable").is_none() => text,
            Form::Other(_) | Form::Struct(_) => {
                self.pending.insert(go_name.to_owned());
                return Ok(Shape::Struct(go_name.to_owned()));
            }
        };
        Ok(match self.shape(&Scope { path, imports }, &Type::parse(of)?)? {
            Shape::Text(_) => Shape::Text(Some(format!("{}.{name}", package.name))),
            other => other,
        })
    }

    /// The marker `+default="TCP"`, or `+default=ref(ProtocolTCP)`.
    fn declared_default(
        &mut self,
        scope: &Scope<'_>,
        comment: &Comment,
    ) -> anyhow::Result<Option<Value>> {
        let Some(text) = comment.marker("default") else { return Ok(None) };
        if let Some(name) = text.strip_prefix("ref(").and_then(|text| text.strip_suffix(')')) {
            let package = self.package(scope.path)?;
            let value = package.constants.get(name);
            return Ok(Some(value.with_context(|| format!("no constant {name}"))?.as_str().into()));
        }
        serde_json::from_str(text).map(Some).with_context(|| format!("+default={text}"))
    }
}

/// The path and the name of a type.
fn split(go_name: &str) -> anyhow::Result<(&str, &str)> {
    go_name.rsplit_once('.').with_context(|| format!("{go_name} has no package"))
}

fn declaration<'a>(
    package: &'a Package,
    go_name: &str,
    name: &str,
) -> anyhow::Result<&'a Declaration> {
    package.types.get(name).with_context(|| format!("there is no type {go_name}"))
}

fn go_name(scope: &Scope<'_>, of: &Type) -> anyhow::Result<String> {
    match of {
        Type::Named(None, name) => Ok(format!("{}.{name}", scope.path)),
        Type::Named(Some(package), name) => {
            let path = scope.imports.get(package);
            Ok(format!("{}.{name}", path.with_context(|| format!("{package} is not imported"))?))
        }
        other => bail!("{other:?} has no name"),
    }
}

/// Markers say it, or else `omitempty`.
fn is_required(options: &[&str], comment: &Comment) -> bool {
    match (comment.marker("required"), comment.marker("optional")) {
        (_, Some(_)) => false,
        (Some(_), None) => true,
        (None, None) => !options.contains(&"omitempty"),
    }
}

impl Omitted {
    fn of(options: &[&str], shape: &Shape, is_pointer: bool) -> Self {
        // `omitempty` does nothing for a struct.
        let can_be_empty = is_pointer || !matches!(shape, Shape::Struct(_) | Shape::Special(_));
        let is_omitted =
            options.contains(&"omitzero") || (options.contains(&"omitempty") && can_be_empty);
        if is_omitted { Self::IfEmpty } else { Self::Never }
    }
}

impl Topology {
    fn of(comment: &Comment) -> anyhow::Result<Option<Self>> {
        let markers = ["listType", "mapType", "structType"].map(|name| comment.marker(name));
        Ok(match markers.into_iter().flatten().next() {
            None => None,
            Some("atomic") => Some(Self::Atomic),
            Some("granular") => Some(Self::Granular),
            Some("set") => Some(Self::Set),
            Some("map") => {
                Some(Self::Keyed(comment.markers("listMapKey").map(str::to_owned).collect()))
            }
            Some(other) => bail!("unknown type of a list, a map or a struct: {other}"),
        })
    }
}
