//! The functions and operators of expressions with the types of their arguments: those of CEL and
//! those of Kubernetes' libraries.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::common::ast::operators;

use super::types::Type;

/// A function for some types of arguments.
#[derive(Clone, Debug)]
pub(super) struct Overload {
    /// The types of the target, for a member, and of the arguments.
    pub parameters: Vec<Type<'static>>,
    result: Type<'static>,
    /// True if the sandbox evaluates it.
    pub is_supported: bool,
}

/// The overloads of each function, by its name and whether it is a member.
pub(super) struct Functions(HashMap<&'static str, [Vec<Overload>; 2]>);

/// A line for each overload. Members have a target; `-` marks what the sandbox does not evaluate.
const TABLE: &str = include_str!("functions.txt");

/// All functions.
pub(super) static FUNCTIONS: LazyLock<Functions> = LazyLock::new(Functions::parse);

impl Functions {
    /// The overloads of a function; none if there is no such function.
    pub(super) fn find(&'static self, name: &str, is_member: bool) -> &'static [Overload] {
        let name = match name {
            // All comparisons are between the same types.
            operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
                operators::LESS
            }
            other => other,
        };
        let found = self.0.get(name).map(|found| &found[usize::from(is_member)]);
        found.map(Vec::as_slice).unwrap_or_default()
    }

    /// True if a name begins those of functions: `format.named`.
    pub(super) fn is_namespace(&self, name: &str) -> bool {
        let begins = |function: &str| {
            function.split_once('.').is_some_and(|(namespace, _)| namespace == name)
        };
        self.0.keys().any(|function| begins(function))
    }

    fn parse() -> Self {
        let mut functions: HashMap<_, [Vec<Overload>; 2]> = HashMap::new();
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (is_supported, line) = match line.strip_prefix("- ") {
                Some(line) => (false, line),
                None => (true, line),
            };
            let (target, line) = match line.split_once(" :: ") {
                Some((target, line)) => (Some(parsed(target)), line),
                None => (None, line),
            };
            let (name, rest) = line.split_once('(').unwrap_or((line, ")"));
            let (arguments, result) = rest.rsplit_once(") ").unwrap_or((rest, "dyn"));
            let is_member = target.is_some();
            let arguments = arguments.split("; ").filter(|text| !text.is_empty()).map(parsed);
            let overload = Overload {
                parameters: target.into_iter().chain(arguments).collect(),
                result: parsed(result),
                is_supported,
            };
            functions.entry(name).or_default()[usize::from(is_member)].push(overload);
        }
        Self(functions)
    }
}

/// A type in the table.
fn parsed(text: &str) -> Type<'static> {
    let of = |name: &str| {
        let inner = text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
        Some(inner)
    };
    if let Some(inner) = of("list") {
        return Type::List(Arc::new(parsed(inner)));
    }
    if let Some(inner) = of("optional") {
        return Type::Optional(Arc::new(parsed(inner)));
    }
    if let Some((key, value)) = of("map").and_then(|inner| inner.split_once(", ")) {
        return Type::Map(Arc::new(parsed(key)), Arc::new(parsed(value)));
    }
    match text {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Kind,
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "url" => Type::Opaque("kubernetes.URL"),
        "quantity" => Type::Opaque("kubernetes.Quantity"),
        "format" => Type::Opaque("kubernetes.NamedFormat"),
        "semver" => Type::Opaque("kubernetes.Semver"),
        "A" => Type::Parameter('A'),
        "B" => Type::Parameter('B'),
        _ => Type::Dyn,
    }
}

impl Overload {
    /// The type of the result for arguments of some types; `None` if the function is not for them.
    pub(super) fn result<'s>(&self, arguments: &[Type<'s>]) -> Option<Type<'s>> {
        if self.parameters.len() != arguments.len() {
            return None;
        }
        let mut bound = Bound::default();
        let fit = |(parameter, argument)| bound.fits(parameter, argument);
        self.parameters.iter().zip(arguments).all(fit).then(|| bound.substituted(&self.result))
    }
}

/// The types that parameters stand for.
#[derive(Default)]
struct Bound<'s>([Option<Type<'s>>; 2]);

impl<'s> Bound<'s> {
    fn slot(&mut self, name: char) -> &mut Option<Type<'s>> {
        &mut self.0[usize::from(name == 'B')]
    }

    /// True if an argument can be given for a parameter.
    fn fits(&mut self, parameter: &Type<'static>, argument: &Type<'s>) -> bool {
        match (parameter, argument) {
            (Type::Parameter(name), _) => {
                let slot = self.slot(*name);
                match slot {
                    None => {
                        if *argument != Type::Unknown {
                            *slot = Some(argument.clone());
                        }
                        true
                    }
                    Some(bound) => match joined(bound, argument) {
                        Some(both) => {
                            *slot = Some(both);
                            true
                        }
                        None => false,
                    },
                }
            }
            (Type::Dyn, _) | (_, Type::Dyn | Type::Unknown) => true,
            (Type::List(parameter), Type::List(argument))
            | (Type::Optional(parameter), Type::Optional(argument)) => {
                self.fits(parameter, argument)
            }
            (Type::Map(key, value), Type::Map(argument_key, argument_value)) => {
                self.fits(key, argument_key) && self.fits(value, argument_value)
            }
            (
                Type::Duration | Type::Timestamp | Type::Opaque(_) | Type::Optional(_),
                Type::Null,
            ) => true,
            (parameter, argument) => parameter == argument,
        }
    }

    fn substituted(&mut self, of: &Type<'static>) -> Type<'s> {
        match of {
            Type::Parameter(name) => self.slot(*name).clone().unwrap_or(Type::Unknown),
            Type::List(of) => Type::List(Arc::new(self.substituted(of))),
            Type::Optional(of) => Type::Optional(Arc::new(self.substituted(of))),
            Type::Map(key, of) => {
                Type::Map(Arc::new(self.substituted(key)), Arc::new(self.substituted(of)))
            }
            other => (*other).clone(),
        }
    }
}

/// The type of values of either of two types; `None` if they have nothing in common.
pub(super) fn joined<'s>(one: &Type<'s>, other: &Type<'s>) -> Option<Type<'s>> {
    Some(match (one, other) {
        (Type::Unknown, known) | (known, Type::Unknown) => known.clone(),
        (Type::Dyn, _) | (_, Type::Dyn) => Type::Dyn,
        (Type::List(one), Type::List(other)) => Type::List(Arc::new(joined(one, other)?)),
        (Type::Optional(one), Type::Optional(other)) => {
            Type::Optional(Arc::new(joined(one, other)?))
        }
        (Type::Map(key, one), Type::Map(other_key, other)) => {
            Type::Map(Arc::new(joined(key, other_key)?), Arc::new(joined(one, other)?))
        }
        (Type::Null, known) | (known, Type::Null) if takes_null(known) => known.clone(),
        (one, other) if one == other => one.clone(),
        _ => return None,
    })
}

fn takes_null(known: &Type<'_>) -> bool {
    matches!(
        known,
        Type::Duration
            | Type::Timestamp
            | Type::Opaque(_)
            | Type::Optional(_)
            | Type::Object(_)
            | Type::Null
    )
}
