//! The columns of `kubectl get` that a definition has (`additionalPrinterColumns`).

use std::sync::LazyLock;

use crate::json::{Value, json};

use super::json_path::JsonPath;

/// A column after the name.
#[derive(Clone, Debug)]
pub struct Column {
    /// The `TableColumnDefinition`.
    pub header: Value,
    /// Where the cells come from.
    pub path: JsonPath,
}

/// The columns of a definition that has none.
pub(crate) static DEFAULT_COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let column = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    Column::parse(&column).into_iter().collect()
});

impl Column {
    /// The columns of a version. As upstream, none after one whose path is not supported.
    pub(super) fn of_version(version: &Value) -> Vec<Self> {
        let columns = version["additionalPrinterColumns"].as_array();
        match columns.filter(|columns| !columns.is_empty()) {
            None => DEFAULT_COLUMNS.clone(),
            Some(columns) => columns.iter().map_while(Self::parse).collect(),
        }
    }

    fn parse(column: &Value) -> Option<Self> {
        let path = column["jsonPath"].as_str()?;
        let text = |field: &str| column[field].as_str().unwrap_or_default();
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            known => known.to_owned(),
        };
        let header = json!({
            "name": text("name"),
            "type": text("type"),
            "format": text("format"),
            "description": description,
            "priority": column["priority"].as_i64().unwrap_or(0),
        });
        Some(Self { header, path: JsonPath::parse(path)? })
    }

    /// The type of the cells: `string`, `date`.
    pub fn type_name(&self) -> &str {
        self.header["type"].as_str().unwrap_or_default()
    }
}
