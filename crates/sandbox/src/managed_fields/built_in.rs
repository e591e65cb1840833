//! Converts the table of the built-in types to a [`MergeSchema`], as upstream's `schemaconv`
//! converts their OpenAPI definitions.

use std::collections::BTreeMap;

use crate::json::Value;

use crate::merge_schema::{
    ListRelation, ListType, MapType, MergeSchema, ScalarType, Type, TypeId, add_custom,
};
use crate::schema::{Field, Shape, Struct, StructId, Topology};

/// The types of all structs; [`TypeId::of_struct`] has their indices.
pub(crate) fn built_in() -> MergeSchema {
    let mut schema = MergeSchema::default();
    schema.types.extend(StructId::all().map(|_| Type::default()));
    let mut converter = Converter::new(schema);
    converter.structs = StructId::all().map(|id| (id.index(), TypeId::of_struct(id))).collect();
    for id in StructId::all() {
        let map = converter.map_of(id.get(), id.get().is_atomic);
        converter.schema.types[TypeId::of_struct(id).0].map = Some(map);
    }
    converter.schema
}

/// The type of a custom kind with this OpenAPI schema (S15).
pub(crate) fn custom(document: &Value) -> (MergeSchema, TypeId) {
    let mut converter = Converter::new(MergeSchema::default());
    let metadata = StructId::find("meta.ObjectMeta").expect("the table has it");
    let metadata = converter.of_struct(metadata);
    add_custom(converter.schema, metadata, document)
}

impl TypeId {
    /// The type of a struct in the schema of the built-in types.
    pub(crate) fn of_struct(id: StructId) -> Self {
        Self(Self::ATOMIC.0 + 1 + id.index())
    }
}

struct Converter {
    schema: MergeSchema,
    scalars: [(ScalarType, TypeId); 4],
    /// The types of structs by their indices.
    structs: BTreeMap<usize, TypeId>,
}

impl Converter {
    fn new(mut schema: MergeSchema) -> Self {
        let all = [ScalarType::Number, ScalarType::Text, ScalarType::Boolean, ScalarType::Any];
        let scalars = all.map(|of| (of, schema.add(Type { scalar: Some(of), ..Type::default() })));
        Self { schema, scalars, structs: BTreeMap::new() }
    }

    fn of_struct(&mut self, id: StructId) -> TypeId {
        if let Some(known) = self.structs.get(&id.index()) {
            return *known;
        }
        let new = self.schema.add(Type::default());
        self.structs.insert(id.index(), new);
        let map = self.map_of(id.get(), id.get().is_atomic);
        self.schema.types[new.0].map = Some(map);
        new
    }

    fn map_of(&mut self, known: &'static Struct, atomic: bool) -> MapType {
        let fields: BTreeMap<Box<str>, TypeId> = known
            .fields()
            .iter()
            .map(|(name, field)| ((*name).into(), self.field(field)))
            .collect();
        // Upstream takes a struct without fields for a map of anything.
        let elements = fields.is_empty().then_some(TypeId::DEDUCED);
        MapType { fields, elements, atomic }
    }

    fn field(&mut self, field: &'static Field) -> TypeId {
        match (&field.shape, field.topology) {
            (Shape::Struct(id), Topology::Atomic | Topology::Granular) => {
                let map = self.map_of(id.get(), field.topology == Topology::Atomic);
                self.schema.add(Type { map: Some(map), ..Type::default() })
            }
            (Shape::List(item), Topology::Set) => self.list(item, ListRelation::Set),
            (Shape::List(item), Topology::Keyed(_)) => self.list(item, keyed(field)),
            (Shape::Map(item), topology) => self.map(item, topology == Topology::Atomic),
            (Shape::Any, Topology::Atomic) => TypeId::ATOMIC,
            (shape, _) => self.shape(shape),
        }
    }

    fn shape(&mut self, shape: &'static Shape) -> TypeId {
        match shape {
            Shape::Struct(id) if id.is_extra_value() => {
                self.list(&Shape::Text("string"), ListRelation::Atomic)
            }
            Shape::Struct(id) => self.of_struct(*id),
            Shape::Map(item) => self.map(item, false),
            Shape::List(item) => self.list(item, ListRelation::Atomic),
            Shape::Text(_) | Shape::Bytes => self.scalar(ScalarType::Text),
            Shape::Integer { .. } | Shape::Float => self.scalar(ScalarType::Number),
            Shape::Boolean => self.scalar(ScalarType::Boolean),
            Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime => {
                self.scalar(ScalarType::Any)
            }
            Shape::Either(_) | Shape::Any => TypeId::DEDUCED,
        }
    }

    fn map(&mut self, item: &'static Shape, atomic: bool) -> TypeId {
        let elements = Some(self.shape(item));
        let map = MapType { fields: BTreeMap::new(), elements, atomic };
        self.schema.add(Type { map: Some(map), ..Type::default() })
    }

    fn list(&mut self, item: &'static Shape, relation: ListRelation) -> TypeId {
        let elements = self.shape(item);
        self.schema.add(Type { list: Some(ListType { elements, relation }), ..Type::default() })
    }

    fn scalar(&self, of: ScalarType) -> TypeId {
        let found = self.scalars.iter().find(|(known, _)| *known == of);
        found.expect("all four are there").1
    }
}

fn keyed(field: &'static Field) -> ListRelation {
    let default = |key: &str| field.element()?.field(key)?.default();
    ListRelation::Keyed(field.topology.keys().map(|key| (key.into(), default(key))).collect())
}
