//! The hash in the name of a revision (C43).

use super::names::RevisionHash;

/// The characters of Kubernetes' generated names: no vowels, and none that resembles another.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const LENGTH: usize = 10;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The hash of a canonical template and `status.collisionCount`: 64-bit FNV-1a in ten characters.
///
/// The result must never change: a revision that is being created while a new version of this
/// program takes over must get the same name. Stored revisions are found by their template.
pub fn revision_hash(canonical: &str, collision_count: Option<i32>) -> RevisionHash {
    let count = collision_count.map(i32::to_le_bytes);
    let bytes = canonical.bytes().chain(count.into_iter().flatten());
    let mut rest =
        bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mut text = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        let digit = usize::try_from(rest % ALPHABET.len() as u64).expect("less than 27");
        text.push(char::from(ALPHABET[digit]));
        rest /= ALPHABET.len() as u64;
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C43: the hash is the same in every version of this program, so this test contains literals.
    #[test]
    fn the_hash_of_a_template_never_changes() {
        assert_eq!(revision_hash("", None).as_str(), "s6vf8jvv2p");
        assert_eq!(revision_hash(r#"{"spec":{}}"#, None).as_str(), "fcd5q8fqd5");
        assert_eq!(revision_hash(r#"{"spec":{}}"#, Some(0)).as_str(), "5qkxgfhm6c");
        assert_eq!(revision_hash(r#"{"spec":{}}"#, Some(1)).as_str(), "l9wt2h7xm4");
    }
}
