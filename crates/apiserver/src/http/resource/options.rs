//! The options of a write: the name under which it is done (S14), which is the parameter
//! `fieldManager` or the client's program, `dryRun` and `fieldValidation`.

use http::header::USER_AGENT;

use crate::http::call::Call;
use crate::http::query::FieldValidation;
use crate::kind::rules::go_quote;
use crate::status::Status;
use crate::store::check_dry_run;

/// Maximum size of a name in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The options of a write, which are valid.
pub(super) struct Options {
    pub manager: String,
    pub field_validation: FieldValidation,
    pub dry_run: bool,
}

impl Options {
    /// Those of a create or update, of this kind of options.
    ///
    /// # Errors
    /// 422 for values that are not supported, and for a name that is too long or has characters
    /// that can't be printed.
    pub(super) fn of_write(options: &str, call: &Call) -> Result<Self, Status> {
        Self::new(options, call, None)
    }

    /// Those of a patch.
    ///
    /// # Errors
    /// Those of [`Self::of_write`], and 422 for `force`, which only an apply has.
    pub(super) fn of_patch(call: &Call) -> Result<Self, Status> {
        let problem = "force: Forbidden: may not be specified for non-apply patch";
        Self::new("PatchOptions", call, call.parameters.force.is_some().then_some(problem))
    }

    /// Those of an apply, whose manager must have a name.
    ///
    /// # Errors
    /// Those of [`Self::of_write`], and 422 without a name.
    pub(super) fn of_apply(call: &Call) -> Result<Self, Status> {
        let problem = "fieldManager: Required value: is required for apply patch";
        Self::new("PatchOptions", call, call.parameters.field_manager.is_empty().then_some(problem))
    }

    fn new(options: &str, call: &Call, problem: Option<&str>) -> Result<Self, Status> {
        let parameters = &call.parameters;
        let mut causes = Vec::from_iter(problem.map(str::to_owned));
        check_name(&parameters.field_manager, &mut causes);
        check_dry_run(&parameters.dry_run, &mut causes);
        let field_validation = parameters.field_validation();
        if field_validation.is_none() {
            causes.push(format!(
                "fieldValidation: Unsupported value: {}: supported values: \"\", \"Ignore\", \
                 \"Strict\", \"Warn\"",
                go_quote(&parameters.field_validation)
            ));
        }
        if !causes.is_empty() {
            return Err(Status::invalid_options(options, &causes));
        }
        let agent = call.headers.get(USER_AGENT).map(|agent| agent.as_bytes()).unwrap_or_default();
        let manager = match parameters.field_manager.as_str() {
            "" => program(&String::from_utf8_lossy(agent)),
            name => name.to_owned(),
        };
        let dry_run = !parameters.dry_run.is_empty();
        Ok(Self { manager, field_validation: field_validation.unwrap_or_default(), dry_run })
    }
}

/// The part of a user agent before the first `/`, as far as it is printable and short enough.
fn program(agent: &str) -> String {
    let mut name = String::new();
    for character in agent.split('/').next().unwrap_or_default().chars() {
        if !is_printable(character) {
            continue;
        }
        if name.len() + character.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        name.push(character);
    }
    name
}

fn check_name(name: &str, causes: &mut Vec<String>) {
    if name.len() > NAME_BYTES_MAX {
        causes.push(format!("fieldManager: Too long: may not be more than {NAME_BYTES_MAX} bytes"));
    }
    for (position, character) in name.char_indices().filter(|(_, it)| !is_printable(*it)) {
        let code = u32::from(character);
        causes.push(format!(
            "fieldManager: Invalid value: {}: invalid character U+{code:04X} (at position \
             {position})",
            go_quote(name)
        ));
    }
}

/// Go's `unicode.IsPrint`, as far as control characters and spaces are concerned.
fn is_printable(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace())
}
