//! The regular expressions of schemas, which are Go's.
//!
//! Our engine has nearly the same syntax. What it reads otherwise is rewritten: its classes have
//! all of Unicode, and brackets, `-`, `&&` and `~~` have a meaning within its classes.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use regex_automata::Input;
use regex_automata::dfa::{Automaton, dense};
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::syntax;

/// A compiled regular expression.
#[derive(Debug)]
pub(crate) struct CompiledPattern {
    machine: PikeVM,
    /// Reads each byte of a text once. `None` if it would be too large: most expressions have a
    /// small one, but some have one that is exponentially larger than the expression.
    automaton: Option<dense::DFA<Vec<u32>>>,
}

/// Maximum size in bytes of the text of a regular expression. Three of them can name all letters.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Maximum size in bytes of a compiled regular expression.
const BYTES_MAX: usize = 1024 * 1024;
/// Maximum size in bytes of its automaton.
const AUTOMATON_BYTES_MAX: usize = 192 * 1024;
/// Number of bytes that are compiled in about one step.
const COMPILED_BYTES_PER_STEP: usize = 16;
/// Product of the bytes of a text and of a machine that are about one step.
const MACHINE_BYTES_PER_STEP: usize = 512;

/// The expressions that were used last: many values are checked by one, but the definitions of a
/// client can have more than fit into the memory.
#[derive(Default)]
struct Cache {
    compiled: HashMap<Box<str>, Arc<CompiledPattern>>,
    bytes: usize,
}

/// Maximum size in bytes of all expressions that are kept.
const CACHE_BYTES_MAX: usize = 16 * 1024 * 1024;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

impl CompiledPattern {
    /// Compiles a regular expression, if it was not used recently. `spend` is called with the steps
    /// that this took.
    ///
    /// # Errors
    /// Why the text is none.
    pub(crate) fn of(text: &str, spend: impl FnOnce(usize)) -> Result<Arc<Self>, String> {
        if let Some(compiled) = CACHE.lock().compiled.get(text) {
            return Ok(compiled.clone());
        }
        let compiled = Self::compile(text);
        spend(match &compiled {
            Ok(compiled) => compiled.steps_to_compile(),
            Err(_) => BYTES_MAX / COMPILED_BYTES_PER_STEP,
        });
        let (compiled, mut cache) = (Arc::new(compiled?), CACHE.lock());
        cache.bytes += compiled.bytes();
        if cache.bytes > CACHE_BYTES_MAX {
            *cache = Cache { bytes: compiled.bytes(), ..Cache::default() };
        }
        cache.compiled.insert(text.into(), compiled.clone());
        Ok(compiled)
    }

    fn compile(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it has more than {TEXT_BYTES_MAX} bytes"));
        }
        let parsed = syntax::parse(&rewritten(text)).map_err(|error| error.to_string())?;
        let size = thompson::Config::new().nfa_size_limit(Some(BYTES_MAX));
        let compiled = NFA::compiler().configure(size).build_from_hir(&parsed);
        let compiled = compiled.map_err(|error| error.to_string())?;
        let size = dense::Config::new()
            .dfa_size_limit(Some(AUTOMATON_BYTES_MAX))
            .determinize_size_limit(Some(AUTOMATON_BYTES_MAX));
        let automaton = dense::Builder::new().configure(size).build_from_nfa(&compiled).ok();
        let machine = PikeVM::new_from_nfa(compiled).map_err(|error| error.to_string())?;
        Ok(Self { machine, automaton })
    }

    fn bytes(&self) -> usize {
        let automaton = self.automaton.as_ref().map_or(0, dense::DFA::memory_usage);
        self.machine.get_nfa().memory_usage() + automaton
    }

    fn steps_to_compile(&self) -> usize {
        let failed = if self.automaton.is_some() { 0 } else { AUTOMATON_BYTES_MAX };
        100 + (self.bytes() + failed) / COMPILED_BYTES_PER_STEP
    }

    /// The steps that it takes to find out whether it matches a text.
    pub(crate) fn steps_to_match(&self, text: &str) -> usize {
        match &self.automaton {
            Some(_) => text.len() / 64,
            None => self.steps_to_find(text),
        }
    }

    /// The steps that it takes to find all parts of a text that it matches.
    pub(crate) fn steps_to_find(&self, text: &str) -> usize {
        let size = self.machine.get_nfa().memory_usage();
        text.len().saturating_mul(size) / MACHINE_BYTES_PER_STEP
    }

    /// True if it matches a part of a text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let input = Input::new(text).earliest(true);
        let searched = self.automaton.as_ref().and_then(|it| it.try_search_fwd(&input).ok());
        match searched {
            Some(found) => found.is_some(),
            None => self.machine.is_match(&mut self.machine.create_cache(), input),
        }
    }

    /// The parts of a text that it matches, at most `count`.
    pub(crate) fn find<'t>(&self, text: &'t str, count: usize) -> Vec<&'t str> {
        let mut cache = self.machine.create_cache();
        let found = self.machine.find_iter(&mut cache, text).take(count);
        found.map(|found| &text[found.range()]).collect()
    }
}

/// The expression in our engine's syntax.
fn rewritten(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape(&mut rest, false, &mut out),
            '[' => class(&mut rest, &mut out),
            other => out.push(other),
        }
    }
    out
}

/// Translates what follows a backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) {
    let Some(character) = rest.next() else { return out.push('\\') };
    let (class, is_negated) = match character {
        'd' | 'D' => ("0-9", character == 'D'),
        'w' | 'W' => ("0-9A-Za-z_", character == 'W'),
        's' | 'S' => (r"\t\n\x0c\r ", character == 'S'),
        'b' | 'B' if !in_class => return out.push_str(&format!(r"(?-u:\{character})")),
        '<' | '>' => return out.push(character),
        other => {
            out.push('\\');
            return out.push(other);
        }
    };
    match (in_class, is_negated) {
        (true, false) => out.push_str(class),
        (_, true) => out.push_str(&format!("[^{class}]")),
        (false, false) => out.push_str(&format!("[{class}]")),
    }
}

/// Translates what follows an opening bracket, up to the one that closes the class.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    // A bracket in the first place does not close the class.
    if rest.next_if_eq(&']').is_some() {
        out.push_str(r"\]");
    }
    let mut after_class = true;
    while let Some(character) = rest.next() {
        match character {
            ']' => return out.push(']'),
            '\\' => {
                let is_class = matches!(rest.peek(), Some('d' | 'D' | 'w' | 'W' | 's' | 'S'));
                escape(rest, true, out);
                after_class = is_class;
                continue;
            }
            '[' if rest.peek() == Some(&':') => {
                // A POSIX class: `[:alpha:]`.
                out.push('[');
                for character in rest.by_ref() {
                    out.push(character);
                    if character == ']' {
                        break;
                    }
                }
            }
            '-' if after_class || rest.peek() == Some(&']') => out.push_str(r"\-"),
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
        after_class = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S15: patterns mean what they mean in Go.
    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, matching, other) in [
            (r"^[\w-_./]+$", "a-_./b", "a b"),
            (r"^\d+$", "12", "१"),
            (r"^[[a]+$", "[a", "b"),
            (r"^[a&&b~~c-]+$", "&~-c", "d"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[^\s]+$", "ab", "a b"),
            (r"^a\/\-\.b$", "a/-.b", "a/--b"),
            (r"^[[:alpha:]-]+$", "a-b", "1"),
            (r"^\<a\>$", "<a>", "a"),
            (r"^\W\S$", "-a", "aa"),
        ] {
            let compiled = CompiledPattern::of(pattern, |_| ());
            let compiled = compiled.unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(compiled.matches(matching), "{pattern} {matching} {}", rewritten(pattern));
            assert!(!compiled.matches(other), "{pattern} {other}");
        }
        for wrong in ["(", "[a", r"(?=a)"] {
            assert!(CompiledPattern::of(wrong, |_| ()).is_err(), "{wrong}");
        }
    }

    /// S15: a pattern takes steps by how it can be followed: byte by byte, or in many states.
    #[test]
    fn the_steps_of_a_pattern_follow_from_its_automaton() {
        let compiled = |pattern| CompiledPattern::of(pattern, |_| ()).expect("it is one");
        let text = "ab".repeat(1000);
        for usual in [r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", r"^(\d{1,3}\.){3}\d{1,3}$", r"^.{1,63}$"]
        {
            assert!(compiled(usual).steps_to_match(&text) < 50, "{usual}");
        }
        for costly in ["[ab]*a[ab]{25}c", "[ab]*a[ab]{400}c"] {
            assert!(compiled(costly).steps_to_match(&text) > 1000, "{costly}");
            assert!(!compiled(costly).matches(&text));
        }
        let mut steps = 0;
        assert!(CompiledPattern::of(r"(\pL{50}){50}", |spent| steps = spent).is_err());
        assert!(steps > 50_000, "{steps}");
        assert!(CompiledPattern::of(&r"\pL".repeat(10_000), |_| ()).is_err());
    }
}
