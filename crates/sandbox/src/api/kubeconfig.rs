//! The kubeconfig of the sandbox (S1).

use std::io::Write;
use std::path::Path;

use serde_json::json;

/// A kubeconfig with one cluster, one user and one context, all named `everynode-sandbox`. It is
/// JSON, which every YAML parser reads.
pub(crate) fn render(server_url: &str, ca_pem: &str, token: &str) -> String {
    let name = "everynode-sandbox";
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": server_url,
            "certificate-authority-data": base64(ca_pem.as_bytes()),
        }}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {
            "cluster": name, "user": name, "namespace": "default",
        }}],
        "current-context": name,
    });
    format!("{document:#}\n")
}

/// Writes `text` to `path` atomically, readable by the owner only. If the path is not a regular
/// file, such as `/dev/stdout`, the text is written to it directly.
pub(crate) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // NamedTempFile creates files with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .enumerate()
            .fold(0u32, |word, (index, byte)| word | u32::from(*byte) << (16 - 8 * index));
        for index in 0..4 {
            if index <= chunk.len() {
                text.push(char::from(ALPHABET[(word >> (18 - 6 * index)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_as_the_standard_says() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
