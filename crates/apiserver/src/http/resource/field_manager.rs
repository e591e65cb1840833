//! The name under which a request writes (S14): the parameter `fieldManager`, or the client's
//! program.

use http::header::USER_AGENT;

use crate::http::call::Call;
use crate::kind::rules::go_quote;
use crate::status::{Details, Reason, Status, StatusCause};

/// Maximum size of a name in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The manager of a create or update, whose options have this kind.
///
/// # Errors
/// 422 for a name that is too long or has characters that can't be printed.
pub(super) fn of_write(options: &str, call: &Call) -> Result<String, Status> {
    named_or_agent(options, call, None)
}

/// The manager of a patch.
///
/// # Errors
/// Those of [`of_write`], and 422 for `force`, which only an apply has.
pub(super) fn of_patch(call: &Call) -> Result<String, Status> {
    let forced = call.parameters.force.is_some().then(|| {
        let message = "Forbidden: may not be specified for non-apply patch";
        StatusCause::new("FieldValueForbidden", "force", message.to_owned())
    });
    named_or_agent("PatchOptions", call, forced)
}

/// The manager of an apply, which must have a name.
///
/// # Errors
/// Those of [`of_write`], and 422 without a name.
pub(super) fn of_apply(call: &Call) -> Result<String, Status> {
    let unnamed = call.parameters.field_manager.is_empty().then(|| {
        let message = "Required value: is required for apply patch";
        StatusCause::new("FieldValueRequired", "fieldManager", message.to_owned())
    });
    named_or_agent("PatchOptions", call, unnamed)
}

fn named_or_agent(
    options: &str,
    call: &Call,
    first: Option<StatusCause>,
) -> Result<String, Status> {
    let mut causes = Vec::from_iter(first);
    check(&call.parameters.field_manager, &mut causes);
    if !causes.is_empty() {
        return Err(invalid(options, causes));
    }
    let name = &call.parameters.field_manager;
    if !name.is_empty() {
        return Ok(name.clone());
    }
    let agent = call.headers.get(USER_AGENT).map(|agent| agent.as_bytes()).unwrap_or_default();
    Ok(program(&String::from_utf8_lossy(agent)))
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

fn check(name: &str, causes: &mut Vec<StatusCause>) {
    if name.len() > NAME_BYTES_MAX {
        let message = format!("Too long: may not be more than {NAME_BYTES_MAX} bytes");
        causes.push(StatusCause::new("FieldValueTooLong", "fieldManager", message));
    }
    for (position, character) in name.char_indices().filter(|(_, it)| !is_printable(*it)) {
        let code = u32::from(character);
        let message = format!(
            "Invalid value: {}: invalid character U+{code:04X} (at position {position})",
            go_quote(name)
        );
        causes.push(StatusCause::new("FieldValueInvalid", "fieldManager", message));
    }
}

/// Go's `unicode.IsPrint`, as far as control characters and spaces are concerned.
fn is_printable(character: char) -> bool {
    character == ' ' || !(character.is_control() || character.is_whitespace())
}

fn invalid(options: &str, causes: Vec<StatusCause>) -> Status {
    let texts: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let texts = match texts.as_slice() {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let message = format!("{options}.meta.k8s.io \"\" is invalid: {texts}");
    Status::new(Reason::Invalid, message).with_details(Details {
        group: "meta.k8s.io".to_owned(),
        kind: options.to_owned(),
        causes,
        ..Details::default()
    })
}
