//! The types of all served objects: the fields of each struct, their form in JSON and in protobuf,
//! and how strategic merge patches and server-side apply treat them. They are compiled from one
//! table, each struct when it is first used.
//!
//! Decoding, unknown fields, the form in which Go encodes objects, patches, the ownership of
//! fields, and OpenAPI documents depend on them.

mod convert;
mod decode;
mod definitions;
mod merging;
mod normalize;
#[cfg(test)]
mod tests;

use std::sync::{LazyLock, OnceLock};

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::json::Value;

use crate::kind::Kind;

pub(crate) use convert::convert;
pub(crate) use decode::decode_changed;
pub use decode::{DecodeError, decode, new_unknown_fields, unknown_fields};
pub use definitions::definitions;
pub use merging::{MergeStrategy, Topology};
pub(crate) use normalize::{complete, empty_object, forget_empty, normalize};

/// The lines of the table: a struct's name, and its fields. `cargo xtask kubernetes` writes them.
const TYPES: &str = include_str!("schema/types.txt");

/// The version of Kubernetes whose types these are: `v1.36.2`.
pub fn kubernetes_version() -> &'static str {
    let first = TYPES.lines().next().and_then(|line| line.strip_prefix("# Kubernetes "));
    first.expect("the first line has the version")
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A struct.
    Struct(StructId),
    /// A map with values of one type.
    Map(Box<Self>),
    /// A list.
    List(Box<Self>),
    /// A string, with its type in Go.
    Text(&'static str),
    /// An integer.
    Integer {
        /// Its size.
        bits: u8,
    },
    /// A float.
    Float,
    /// A boolean.
    Boolean,
    /// A quantity: `100m`.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// A time in seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// Bytes, in JSON as base64.
    Bytes,
    /// A struct, or any JSON that is not an object.
    Either(StructId),
    /// Any JSON.
    Any,
}

/// The index of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructId(usize);

/// Fields by name. All fields of all written objects are looked up.
pub type Fields = IndexMap<&'static str, Field, FxBuildHasher>;

/// A struct of the API.
#[derive(Debug)]
pub struct Struct {
    /// The group, the version and the name of the Go type: `core.v1.PodSpec`.
    name: &'static str,
    /// True if server-side apply takes the struct for one field.
    pub is_atomic: bool,
    /// The fields in JSON, ordered by name, those of embedded structs included.
    fields: Fields,
    /// The fields in protobuf, ordered by number.
    wire: Vec<(u32, WireField)>,
    /// The indices of the fields in protobuf by their names in JSON.
    wire_by_name: FxHashMap<&'static str, usize>,
}

/// A field in JSON.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its type.
    pub shape: Shape,
    encoded: EncodeRule,
    /// True if an absent value is null even if Go always writes the field.
    is_pointer: bool,
    /// How strategic merge patches treat it.
    pub merge: MergeStrategy,
    /// How server-side apply treats it.
    pub topology: Topology,
    /// The default that the type declares.
    declared_default: Option<&'static str>,
}

/// A field in protobuf. It has no name if it is embedded: then its fields are its parent's in JSON.
#[derive(Debug)]
pub struct WireField {
    /// Its name in JSON.
    pub name: Option<&'static str>,
    /// True if JSON lacks an empty value, which protobuf does not distinguish from an absent one.
    pub omits_empty: bool,
    /// True if protobuf lacks an absent value, which otherwise is written as the empty one.
    pub is_pointer: bool,
    /// Its type.
    pub shape: Shape,
}

/// When Go's encoder writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EncodeRule {
    Always,
    /// Unless it is absent, which for lists and maps is the same as empty.
    IfPresent,
    /// Unless it is empty.
    IfNotZero,
}

/// All structs, ordered by name.
struct Structs {
    rows: Vec<StructRow>,
    /// The structs by the three parts of their names: `core`, `v1` and `Pod`.
    by_parts: FxHashMap<[&'static str; 3], StructId>,
    compiled: Vec<OnceLock<Struct>>,
}

/// A struct in the text of the table: `core.v1.ObjectReference atomic: 1 kind? string`.
#[derive(Clone, Copy)]
struct StructRow {
    name: &'static str,
    is_atomic: bool,
    fields: &'static str,
}

static STRUCTS: LazyLock<Structs> = LazyLock::new(Structs::index);

/// The type of a kind's objects; `None` for a custom kind.
pub fn root_of(kind: &Kind) -> Option<StructId> {
    if kind.custom.is_some() {
        return None;
    }
    let group = if kind.group.is_empty() { "core" } else { kind.group };
    let short = group.split('.').next().unwrap_or(group);
    STRUCTS.by_parts.get(&[short, kind.version, kind.kind]).copied()
}

/// The type of the metadata of all kinds.
pub(crate) fn object_meta() -> StructId {
    StructId::find("meta.ObjectMeta").expect("the table has it")
}

/// The type of a definition in OpenAPI documents: `io.k8s.api.core.v1.PodSpec`.
#[cfg(test)]
pub(crate) fn of_definition(definition: &str) -> Option<StructId> {
    if let Some(name) = definition.strip_prefix("io.k8s.apimachinery.pkg.apis.meta.v1.") {
        return StructId::find(&format!("meta.{name}"));
    }
    let prefixes = [
        "io.k8s.api.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
        "io.k8s.kube-aggregator.pkg.apis.",
    ];
    prefixes.iter().find_map(|prefix| StructId::find(definition.strip_prefix(prefix)?))
}

impl StructId {
    /// The struct with a name such as `core.v1.PodSpec`.
    pub fn find(name: &str) -> Option<Self> {
        STRUCTS.rows.binary_search_by(|known| known.name.cmp(name)).ok().map(Self)
    }

    /// True if the struct is a list in JSON.
    pub fn is_extra_value(self) -> bool {
        STRUCTS.rows[self.0].name.ends_with(".ExtraValue")
    }

    /// The struct.
    pub fn get(self) -> &'static Struct {
        STRUCTS.compiled[self.0].get_or_init(|| Struct::compile(STRUCTS.rows[self.0]))
    }
}

impl Struct {
    /// The name of the Go type.
    fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// The name of the Go type in messages: `v1.PodSpec`.
    fn go_name(&self) -> String {
        let version = self.name.split('.').nth_back(1).filter(|word| *word != "meta");
        format!("{}.{}", version.unwrap_or("v1"), self.short_name())
    }

    /// The field with a name in JSON.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// The field with a number in protobuf.
    pub fn wire_field(&self, number: u32) -> Option<&WireField> {
        let index = self.wire.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.wire[index].1)
    }

    /// The position of a field with a name in JSON among the fields in protobuf.
    pub fn wire_index(&self, name: &str) -> Option<usize> {
        self.wire_by_name.get(name).copied()
    }

    /// The fields in protobuf with their numbers, in this order.
    pub fn wire_fields(&self) -> impl Iterator<Item = (u32, &WireField)> {
        self.wire.iter().map(|(number, field)| (*number, field))
    }

    /// The fields in JSON by name.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    fn compile(row: StructRow) -> Self {
        let StructRow { name, is_atomic, fields } = row;
        let mut compiled = Self {
            name,
            is_atomic,
            fields: Fields::default(),
            wire: Vec::new(),
            wire_by_name: FxHashMap::default(),
        };
        for text in fields.split(", ").filter(|text| !text.is_empty()) {
            let row = FieldRow::parse(text);
            if row.is_embedded() {
                let Shape::Struct(id) = &row.shape else { continue };
                compiled
                    .fields
                    .extend(id.get().fields.iter().map(|(name, field)| (*name, field.clone())));
            } else {
                compiled.fields.insert(row.name, row.field());
            }
            if row.number > 0 {
                compiled.wire.push((row.number, row.wire()));
            }
        }
        compiled.wire.sort_by_key(|(number, _)| *number);
        let named = compiled.wire.iter().enumerate();
        compiled.wire_by_name =
            named.filter_map(|(index, (_, field))| Some((field.name?, index))).collect();
        compiled.fields.sort_unstable_keys();
        compiled
    }
}

impl Structs {
    fn index() -> Self {
        let lines = TYPES.lines().filter(|line| !line.starts_with('#'));
        let rows: Vec<_> = lines.filter_map(StructRow::parse).collect();
        let compiled = rows.iter().map(|_| OnceLock::new()).collect();
        let parts = |row: &StructRow| row.name.split('.').collect::<Vec<_>>().try_into().ok();
        let by_parts = rows.iter().enumerate();
        let by_parts = by_parts.filter_map(|(index, row)| Some((parts(row)?, StructId(index))));
        Self { by_parts: by_parts.collect(), rows, compiled }
    }
}

impl StructRow {
    fn parse(line: &'static str) -> Option<Self> {
        let (head, fields) = line.split_once(':')?;
        let name = head.strip_suffix(" atomic").unwrap_or(head);
        Some(Self { name, is_atomic: name != head, fields: fields.trim_start() })
    }
}

/// A field in the text of the table: `6 ports? *core.v1.ContainerPort merge:containerPort`.
struct FieldRow {
    number: u32,
    name: &'static str,
    encoded: EncodeRule,
    is_pointer: bool,
    shape: Shape,
    merge: MergeStrategy,
    topology: Topology,
    declared_default: Option<&'static str>,
}

impl FieldRow {
    fn parse(text: &'static str) -> Self {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let number = word().parse().unwrap_or_default();
        let marked = word();
        let shape = Shape::parse(word());
        let name = marked.trim_end_matches(['?', '!', '^']);
        let encoded = match &marked[name.len()..] {
            "?" => EncodeRule::IfNotZero,
            "!" | "!^" => EncodeRule::Always,
            _ => EncodeRule::IfPresent,
        };
        let is_pointer = marked.ends_with('^');
        let (merge, topology, declared_default) = merging::parse(words);
        Self { number, name, encoded, is_pointer, shape, merge, topology, declared_default }
    }

    fn is_embedded(&self) -> bool {
        self.name == "-"
    }

    fn field(&self) -> Field {
        let Self { encoded, is_pointer, merge, topology, declared_default, .. } = *self;
        let shape = self.shape.clone();
        Field { shape, encoded, is_pointer, merge, topology, declared_default }
    }

    fn wire(&self) -> WireField {
        WireField {
            name: (!self.is_embedded()).then_some(self.name),
            omits_empty: self.encoded == EncodeRule::IfNotZero,
            is_pointer: self.is_pointer || self.encoded == EncodeRule::IfPresent,
            shape: self.shape.clone(),
        }
    }
}

impl Shape {
    fn parse(text: &'static str) -> Self {
        match text {
            "string" => Self::Text("string"),
            "bytes" => Self::Bytes,
            "bool" => Self::Boolean,
            "int32" => Self::Integer { bits: 32 },
            "int64" => Self::Integer { bits: 64 },
            "double" => Self::Float,
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "quantity" => Self::Quantity,
            "intorstring" => Self::IntOrString,
            "raw" => Self::Any,
            _ => Self::parse_composite(text),
        }
    }

    fn parse_composite(text: &'static str) -> Self {
        let named = |name| StructId::find(name).expect("the table defines every struct");
        match text.split_at_checked(1) {
            Some(("*", item)) => Self::List(Box::new(Self::parse(item))),
            Some(("%", item)) => Self::Map(Box::new(Self::parse(item))),
            Some(("|", name)) => Self::Either(named(name)),
            _ => match text.strip_prefix("string:") {
                Some(go_type) => Self::Text(go_type),
                None => Self::Struct(named(text)),
            },
        }
    }

    fn element(&self) -> Option<StructId> {
        match self {
            Self::Struct(id) => Some(*id),
            Self::List(item) => item.element(),
            _ => None,
        }
    }
}

impl Field {
    /// The struct of the field, or of its elements if it is a list.
    pub fn element(&self) -> Option<&'static Struct> {
        self.shape.element().map(StructId::get)
    }

    /// The default of the field in OpenAPI documents. Scalars that Go always writes have their zero
    /// value.
    pub fn default(&self) -> Option<Value> {
        if let Some(declared) = self.declared_default {
            return Some(match self.shape {
                Shape::Text(_) => declared.into(),
                _ => serde_json::from_str(declared).expect("the table has JSON"),
            });
        }
        let is_scalar = matches!(
            self.shape,
            Shape::Text(_) | Shape::Integer { .. } | Shape::Float | Shape::Boolean
        );
        (is_scalar && self.encoded == EncodeRule::Always && !self.is_pointer)
            .then(|| self.shape.zero())
    }
}
