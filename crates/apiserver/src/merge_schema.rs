//! The parts of types that merging needs: which values are one field, and what identifies the
//! elements of lists. They are read from the table of the built-in types and from the schemas of
//! custom kinds, as upstream's `schemaconv` reads their OpenAPI schemas.

mod element;

use crate::custom::{self, Additional, Schema, TypeName};
use crate::json::Value;
use crate::schema::{Field, Shape, Struct, StructId, Topology, object_meta};

pub(crate) use element::{ElementError, PathElement, Scalar, compare};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type<'s> {
    /// A type that is deduced from each value: maps are granular, lists atomic. For objects without
    /// a schema, and for fields that a schema does not know.
    Deduced,
    /// Any value, as one field.
    Atomic,
    Struct(StructId),
    Field(&'static Field),
    /// The elements of a built-in map or list.
    Shape(&'static Shape),
    Custom(Custom<'s>),
}

/// A type that the schema of a custom kind describes (S15).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Custom<'s> {
    schema: &'s Schema,
    /// True if a schema around this one preserves unknown fields.
    preserves: bool,
    /// True if this is the object itself, which has metadata.
    is_root: bool,
}

/// The forms of a type. A value of an unknown type can have several; its own form selects one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forms<'s> {
    pub map: Option<MapType<'s>>,
    pub scalar: Option<ScalarType>,
    pub list: Option<ListType<'s>>,
}

/// The form of a type that a value has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'s> {
    Map(MapType<'s>),
    Scalar(ScalarType),
    List(ListType<'s>),
}

/// A struct, a map, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapType<'s> {
    fields: Fields<'s>,
    /// The type of other fields; `None` if there are none.
    elements: Option<Type<'s>>,
    /// True if the map is one field.
    pub atomic: bool,
}

#[derive(Clone, Copy, Debug)]
enum Fields<'s> {
    None,
    Struct(&'static Struct),
    Custom(Custom<'s>),
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListType<'s> {
    pub elements: Type<'s>,
    relation: ListRelation<'s>,
}

/// The identity of the elements of a list.
#[derive(Clone, Copy, Debug)]
enum ListRelation<'s> {
    /// Nothing: the list is one field.
    Atomic,
    /// Their values, which are scalars.
    Set,
    /// The values of some fields, with the defaults of the fields.
    Keyed(Keys<'s>),
}

/// The list that names the fields.
#[derive(Clone, Copy, Debug)]
enum Keys<'s> {
    BuiltIn(&'static Field),
    Custom(&'s Schema),
}

/// A scalar, which is always one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarType {
    Number,
    Text,
    Boolean,
    Any,
}

impl<'s> Type<'s> {
    /// The type of a custom kind's objects.
    pub(crate) fn of_custom(schema: &'s Schema) -> Self {
        Self::Custom(Custom { schema, preserves: false, is_root: true })
    }

    /// The form of a value. For null, and for a value of a form that the type does not have, the
    /// first form of the type counts; validation reports the latter.
    pub(crate) fn form(self, value: Option<&Value>) -> Form<'s> {
        let forms = self.forms();
        let map = || forms.map.map(Form::Map);
        let scalar = || forms.scalar.map(Form::Scalar);
        let list = || forms.list.map(Form::List);
        let own = match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar(),
            Some(Value::Array(_)) => list(),
            Some(Value::Object(_)) => map(),
            Some(Value::Null) | None => None,
        };
        own.or_else(map).or_else(scalar).or_else(list).expect("every type has a form")
    }

    pub(crate) fn forms(self) -> Forms<'s> {
        match self {
            Self::Deduced => Forms::any(self, false),
            Self::Atomic => Forms::any(self, true),
            Self::Struct(id) => Forms::of_struct(id, id.get().is_atomic),
            Self::Field(field) => Forms::of_field(field),
            Self::Shape(shape) => Forms::of_shape(shape),
            Self::Custom(custom) => custom.forms(),
        }
    }
}

impl<'s> Forms<'s> {
    fn any(elements: Type<'s>, atomic: bool) -> Self {
        let scalar = Some(ScalarType::Any);
        let list = ListType { elements: Type::Atomic, relation: ListRelation::Atomic };
        Self { scalar, list: Some(list), ..Self::map(elements, atomic) }
    }

    fn scalar(of: ScalarType) -> Self {
        Self { scalar: Some(of), ..Self::default() }
    }

    fn map(elements: Type<'s>, atomic: bool) -> Self {
        let map = MapType { fields: Fields::None, elements: Some(elements), atomic };
        Self { map: Some(map), ..Self::default() }
    }

    fn list(elements: Type<'s>, relation: ListRelation<'s>) -> Self {
        Self { list: Some(ListType { elements, relation }), ..Self::default() }
    }

    fn of_struct(id: StructId, atomic: bool) -> Self {
        let known = id.get();
        // Upstream takes a struct without fields for a map of anything.
        let elements = known.fields().is_empty().then_some(Type::Deduced);
        let map = MapType { fields: Fields::Struct(known), elements, atomic };
        Self { map: Some(map), ..Self::default() }
    }

    fn of_field(field: &'static Field) -> Self {
        match (&field.shape, field.topology) {
            (Shape::Struct(id), Topology::Atomic | Topology::Granular) => {
                Self::of_struct(*id, field.topology == Topology::Atomic)
            }
            (Shape::List(item), Topology::Set) => Self::list(Type::Shape(item), ListRelation::Set),
            (Shape::List(item), Topology::Keyed(_)) => {
                Self::list(Type::Shape(item), ListRelation::Keyed(Keys::BuiltIn(field)))
            }
            (Shape::Map(item), topology) => {
                Self::map(Type::Shape(item), topology == Topology::Atomic)
            }
            (Shape::Any, Topology::Atomic) => Type::Atomic.forms(),
            (shape, _) => Self::of_shape(shape),
        }
    }

    fn of_shape(shape: &'static Shape) -> Self {
        match shape {
            Shape::Struct(id) if id.is_extra_value() => {
                Self::list(Type::Shape(&TEXT), ListRelation::Atomic)
            }
            Shape::Struct(id) => Type::Struct(*id).forms(),
            Shape::Map(item) => Self::map(Type::Shape(item), false),
            Shape::List(item) => Self::list(Type::Shape(item), ListRelation::Atomic),
            Shape::Text(_) | Shape::Bytes => Self::scalar(ScalarType::Text),
            Shape::Integer { .. } | Shape::Float => Self::scalar(ScalarType::Number),
            Shape::Boolean => Self::scalar(ScalarType::Boolean),
            Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime => {
                Self::scalar(ScalarType::Any)
            }
            Shape::Either(_) | Shape::Any => Type::Deduced.forms(),
        }
    }
}

static TEXT: Shape = Shape::Text("string");

impl<'s> Custom<'s> {
    fn forms(self) -> Forms<'s> {
        if self.schema.int_or_string {
            return Forms::scalar(ScalarType::Any);
        }
        match self.schema.type_name {
            Some(TypeName::Object) => Forms { map: Some(self.map()), ..Forms::default() },
            Some(TypeName::Array) => Forms { list: Some(self.list()), ..Forms::default() },
            Some(TypeName::Integer | TypeName::Number) => Forms::scalar(ScalarType::Number),
            Some(TypeName::Boolean) => Forms::scalar(ScalarType::Boolean),
            Some(TypeName::String) => match self.schema.checks.format.as_deref() {
                None | Some("byte") => Forms::scalar(ScalarType::Text),
                Some(_) => Forms::scalar(ScalarType::Any),
            },
            None => Forms {
                map: Some(self.map()),
                scalar: Some(ScalarType::Any),
                list: Some(self.list()),
            },
        }
    }

    fn preserves(self) -> bool {
        self.preserves || self.schema.preserves
    }

    fn inner(self, schema: &'s Schema) -> Type<'s> {
        Type::Custom(Custom { schema, preserves: self.preserves(), is_root: false })
    }

    fn map(self) -> MapType<'s> {
        let elements = match &self.schema.additional {
            Additional::Any => Some(Type::Deduced),
            Additional::Of(elements) => Some(self.inner(elements)),
            Additional::Unsaid if self.preserves() || self.schema.properties.is_empty() => {
                Some(Type::Deduced)
            }
            Additional::Unsaid | Additional::None => None,
        };
        MapType { fields: Fields::Custom(self), elements, atomic: self.schema.is_atomic_map }
    }

    fn field(self, name: &str) -> Option<Type<'s>> {
        match name {
            "apiVersion" | "kind" if self.is_resource() => Some(Type::Shape(&TEXT)),
            "metadata" if self.is_resource() => Some(Type::Struct(object_meta())),
            _ => self.schema.properties.get(name).map(|schema| self.inner(schema)),
        }
    }

    fn is_resource(self) -> bool {
        self.is_root || self.schema.embedded
    }

    fn list(self) -> ListType<'s> {
        let items = self.schema.items.as_deref();
        ListType {
            elements: items.map_or(Type::Atomic, |items| self.inner(items)),
            relation: match self.schema.list_type {
                custom::ListType::Atomic => ListRelation::Atomic,
                custom::ListType::Set => ListRelation::Set,
                custom::ListType::Map => ListRelation::Keyed(Keys::Custom(self.schema)),
            },
        }
    }
}

impl<'s> MapType<'s> {
    /// The type of a field. A field that the type does not know is deduced: an object can have one
    /// that was stored by a newer version.
    pub(crate) fn type_of(&self, field: &str) -> Type<'s> {
        self.declared(field).unwrap_or(Type::Deduced)
    }

    /// The type of a field; `None` if the type does not allow the field.
    pub(crate) fn declared(&self, field: &str) -> Option<Type<'s>> {
        self.named(field).or(self.elements)
    }

    /// The type of a field of a struct; `None` for an entry of a map.
    pub(crate) fn named(&self, field: &str) -> Option<Type<'s>> {
        match self.fields {
            Fields::None => None,
            Fields::Struct(known) => known.field(field).map(Type::Field),
            Fields::Custom(custom) => custom.field(field),
        }
    }
}

impl ListType<'_> {
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.relation, ListRelation::Atomic)
    }

    /// The path element of an element of the list.
    ///
    /// # Errors
    /// Why the element has none, in upstream's words.
    pub(crate) fn element(&self, item: &Value) -> Result<PathElement, String> {
        match self.relation {
            ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListRelation::Set => set_element(item),
            ListRelation::Keyed(keys) => keys.element(item),
        }
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    let cause = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(PathElement::Value(Scalar(scalar.clone()))),
    };
    Err(cause.to_owned())
}

impl<'s> Keys<'s> {
    fn names(self) -> Vec<&'s str> {
        match self {
            Self::BuiltIn(field) => field.topology.keys().collect(),
            Self::Custom(list) => list.map_keys.iter().map(|key| &**key).collect(),
        }
    }

    fn default(self, name: &str) -> Option<Value> {
        match self {
            Self::BuiltIn(field) => field.element()?.field(name)?.default(),
            Self::Custom(list) => list.items.as_ref()?.properties.get(name)?.default.clone(),
        }
    }

    fn element(&self, item: &Value) -> Result<PathElement, String> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let names = self.names();
        let mut found: Vec<(Box<str>, Scalar)> = names
            .iter()
            .filter_map(|name| {
                let value = fields.get(name).cloned().or_else(|| self.default(name))?;
                Some(((*name).into(), Scalar(value)))
            })
            .collect();
        if found.is_empty() && !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and \
                 doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(PathElement::Key(found.into()))
    }
}
