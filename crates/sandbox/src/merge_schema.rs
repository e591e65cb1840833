//! What merging needs to know of types: which values are one field, and what identifies the
//! elements of lists. The built-in types are converted to it, and in tests OpenAPI schemas.

mod element;
mod openapi;

use std::collections::BTreeMap;

use crate::json::Value;

pub(crate) use element::{ElementError, PathElement, Scalar, compare};
pub(crate) use openapi::add_custom;
#[cfg(test)]
pub(crate) use openapi::convert;

/// Types that refer to each other.
#[derive(Debug)]
pub(crate) struct MergeSchema {
    pub(crate) types: Vec<Type>,
}

/// The index of a type in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeId(pub(crate) usize);

/// A type. A value of an unknown type can have several forms; its own form selects one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Type {
    pub map: Option<MapType>,
    pub scalar: Option<ScalarType>,
    pub list: Option<ListType>,
}

/// A struct, a map, or both.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapType {
    pub fields: BTreeMap<Box<str>, TypeId>,
    /// The type of other fields; `None` if there are none.
    pub elements: Option<TypeId>,
    /// Whether the map is one field.
    pub atomic: bool,
}

/// A list.
#[derive(Clone, Debug)]
pub(crate) struct ListType {
    pub elements: TypeId,
    pub relation: ListRelation,
}

/// What identifies the elements of a list.
#[derive(Clone, Debug)]
pub(crate) enum ListRelation {
    /// Nothing: the list is one field.
    Atomic,
    /// Their values, which are scalars.
    Set,
    /// The values of these fields, with the defaults of the fields.
    Keyed(Vec<(Box<str>, Option<Value>)>),
}

/// A scalar, which is always one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarType {
    Number,
    Text,
    Boolean,
    Any,
}

/// The form of a type that a value has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'s> {
    Map(&'s MapType),
    Scalar(ScalarType),
    List(&'s ListType),
}

impl TypeId {
    /// A type that is deduced from each value: maps are granular, lists atomic. For objects without
    /// a schema, and for fields that a schema does not know.
    pub(crate) const DEDUCED: Self = Self(0);
    /// Any value, as one field.
    pub(crate) const ATOMIC: Self = Self(1);
}

impl Default for MergeSchema {
    fn default() -> Self {
        let any = |map: TypeId, atomic| Type {
            map: Some(MapType { fields: BTreeMap::new(), elements: Some(map), atomic }),
            scalar: Some(ScalarType::Any),
            list: Some(ListType { elements: TypeId::ATOMIC, relation: ListRelation::Atomic }),
        };
        Self { types: vec![any(TypeId::DEDUCED, false), any(TypeId::ATOMIC, true)] }
    }
}

impl MergeSchema {
    pub(crate) fn add(&mut self, new: Type) -> TypeId {
        self.types.push(new);
        TypeId(self.types.len() - 1)
    }

    pub(crate) fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0]
    }

    /// The form of a value. For null, and for a value of a form that the type does not have, the
    /// first form of the type counts; validation reports the latter.
    pub(crate) fn form(&self, id: TypeId, value: Option<&Value>) -> Form<'_> {
        let known = self.get(id);
        let map = || known.map.as_ref().map(Form::Map);
        let scalar = || known.scalar.map(Form::Scalar);
        let list = || known.list.as_ref().map(Form::List);
        let own = match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar(),
            Some(Value::Array(_)) => list(),
            Some(Value::Object(_)) => map(),
            Some(Value::Null) | None => None,
        };
        own.or_else(map)
            .or_else(scalar)
            .or_else(list)
            .expect("every type has a form: that is how types are made")
    }
}

impl MapType {
    /// The type of a field. A field that the type does not know is deduced: an object can have one
    /// that was stored by a newer version.
    pub(crate) fn type_of(&self, field: &str) -> TypeId {
        self.declared(field).unwrap_or(TypeId::DEDUCED)
    }

    /// The type of a field; `None` if the type does not allow the field.
    pub(crate) fn declared(&self, field: &str) -> Option<TypeId> {
        self.fields.get(field).copied().or(self.elements)
    }
}

impl ListType {
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.relation, ListRelation::Atomic)
    }

    /// The path element of an element of the list.
    ///
    /// # Errors
    /// Why the element has none, in upstream's words.
    pub(crate) fn element(&self, item: &Value) -> Result<PathElement, String> {
        match &self.relation {
            ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListRelation::Set => set_element(item),
            ListRelation::Keyed(keys) => keyed_element(keys, item),
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

fn keyed_element(keys: &[(Box<str>, Option<Value>)], item: &Value) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found: Vec<(Box<str>, Scalar)> = keys
        .iter()
        .filter_map(|(name, default)| {
            let value = fields.get(name).or(default.as_ref())?;
            Some((name.clone(), Scalar(value.clone())))
        })
        .collect();
    if found.is_empty() && !keys.is_empty() {
        let names: Vec<String> = keys.iter().map(|(name, _)| format!("{name:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't \
             have default values for any key fields)",
            names.join(" ")
        ));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(PathElement::Key(found.into()))
}
