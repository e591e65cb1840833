//! Named formats (upstream's `library/format.go`).

use cel::common::types::{CelOptional, CelString};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::{failed, list_of_texts, opaque, url};
use crate::format;

/// A format: what is wrong with a text.
#[derive(Clone, Copy, Debug)]
struct Format {
    name: &'static str,
    errors: fn(&str) -> Vec<String>,
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

opaque!(Format, "kubernetes.NamedFormat");

const FORMATS: &[Format] = &[
    Format { name: "dns1123Label", errors: |text| format::label_name(text, false) },
    Format { name: "dns1123Subdomain", errors: |text| format::subdomain_name(text, false) },
    Format { name: "dns1035Label", errors: |text| format::dns_1035(text, false) },
    Format { name: "qualifiedName", errors: format::label_key },
    Format { name: "dns1123LabelPrefix", errors: |text| format::label_name(text, true) },
    Format { name: "dns1123SubdomainPrefix", errors: |text| format::subdomain_name(text, true) },
    Format { name: "dns1035LabelPrefix", errors: |text| format::dns_1035(text, true) },
    Format { name: "labelValue", errors: format::label_value },
    Format { name: "uri", errors: |text| url::check(text).err().into_iter().collect() },
    Format {
        name: "uuid",
        errors: |text| of_schema("uuid", text, "does not match the UUID format"),
    },
    Format { name: "byte", errors: |text| of_schema("byte", text, "invalid base64") },
    Format { name: "date", errors: |text| of_schema("date", text, "invalid date") },
    Format { name: "datetime", errors: |text| of_schema("datetime", text, "invalid datetime") },
];

fn of_schema(name: &str, text: &str, error: &str) -> Vec<String> {
    if format::is_of(name, text) { Vec::new() } else { vec![error.to_owned()] }
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn named: (CelString) -> CelOptional, name = "format.named")?;
    add_member_overload!(env, fn validate: (Format, CelString) -> CelOptional)?;
    /// Adds the functions without arguments, which need a function each.
    macro_rules! constants {
        ($($name:literal),*) => {
            $({
                fn constant<'b, 'v>(
                    _: Vec<CowVal<'b, 'v>>,
                ) -> Result<CowVal<'b, 'v>, ExecutionError> {
                    let found = find($name).ok_or_else(|| failed($name, "unknown format"))?;
                    Ok(CowVal::owned(found))
                }
                let name = concat!("format.", $name);
                env.add_overload(name, name, Vec::new(), constant)?;
            })*
        };
    }
    constants!(
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime"
    );
    Ok(())
}

fn find(name: &str) -> Option<Format> {
    FORMATS.iter().find(|format| format.name == name).copied()
}

fn named(name: &CelString<'_>) -> CelOptional<'static> {
    match find(name.inner()) {
        Some(format) => CelOptional::of(Box::new(format)),
        None => CelOptional::none(),
    }
}

fn validate(format: &Format, text: &CelString<'_>) -> CelOptional<'static> {
    let errors = (format.errors)(text.inner());
    if errors.is_empty() {
        return CelOptional::none();
    }
    let errors: Box<dyn Val> = Box::new(list_of_texts(errors));
    CelOptional::of(errors)
}
