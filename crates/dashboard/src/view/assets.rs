//! The files that pages refer to. They are part of the program.

/// A file.
pub(crate) struct Asset {
    pub media_type: &'static str,
    pub text: &'static str,
}

/// The style sheet, which reports contain.
pub(crate) const STYLE: &str = include_str!("../../assets/dashboard.css");

/// The file of this name.
pub(crate) fn find(name: &str) -> Option<Asset> {
    let (media_type, text) = match name {
        "dashboard.css" => ("text/css; charset=utf-8", STYLE),
        "dashboard.js" => {
            ("text/javascript; charset=utf-8", include_str!("../../assets/dashboard.js"))
        }
        "icon.svg" => ("image/svg+xml", include_str!("../../assets/icon.svg")),
        _ => return None,
    };
    Some(Asset { media_type, text })
}
