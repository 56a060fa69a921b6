//! Regular expressions made once, however many nodes have them: a network's hundred thousand players may all have the same one.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use regex::Regex;

use super::pattern;

/// What nodes have, by how it is written. Locked only when a node is made.
static REGEXES: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Shared {
    by_pattern: HashMap<Box<str>, (Weak<Regex>, u16)>,
    /// How many there may be until those that nobody has any more are looked for.
    tidy_at: usize,
}

/// A compiled expression and how many usual ones it counts for; the same one for the same pattern as long as anybody has it.
pub(super) fn regex(java: &str) -> Result<(Arc<Regex>, u16), String> {
    if let Some(known) = shared(|shared| shared.get(java)) {
        return Ok(known);
    }
    // Not under the lock: the largest take a while.
    let (regex, counts_for) = pattern::compile(java)?;
    Ok(shared(|shared| shared.keep(java, (Arc::new(regex), counts_for))))
}

fn shared<T>(of: impl FnOnce(&mut Shared) -> T) -> T {
    // Whoever panicked in between has left a map that is whole.
    of(&mut REGEXES.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Shared {
    fn get(&self, java: &str) -> Option<(Arc<Regex>, u16)> {
        let (regex, counts_for) = self.by_pattern.get(java)?;
        Some((regex.upgrade()?, *counts_for))
    }

    /// Keeps it in mind, unless somebody else was faster.
    fn keep(&mut self, java: &str, (regex, counts_for): (Arc<Regex>, u16)) -> (Arc<Regex>, u16) {
        if let Some(first) = self.get(java) {
            return first;
        }
        if self.by_pattern.len() >= self.tidy_at {
            self.by_pattern.retain(|_, (regex, _)| regex.strong_count() > 0);
            self.tidy_at = 2 * self.by_pattern.len() + 64;
        }
        self.by_pattern.insert(java.into(), (Arc::downgrade(&regex), counts_for));
        (regex, counts_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(java: &str) -> Arc<Regex> {
        regex(java).expect("a pattern").0
    }

    #[test]
    fn the_same_pattern_is_one_expression_as_long_as_anybody_has_it() {
        let first = made("only.here.*");
        assert!(Arc::ptr_eq(&first, &made("only.here.*")));
        assert!(!Arc::ptr_eq(&first, &made("only.here.+")));
        let weak = Arc::downgrade(&first);
        drop(first);
        assert_eq!(weak.strong_count(), 0, "what is shared is not kept");
        assert!(made("only.here.*").is_match("only.here."));
    }

    #[test]
    fn what_nobody_has_is_forgotten() {
        let mut shared = Shared::default();
        let any = || (Arc::new(Regex::new("x").expect("a pattern")), 1);
        let (kept, _) = shared.keep("kept", any());
        for n in 0..1_000 {
            shared.keep(&n.to_string(), any());
        }
        assert!(shared.by_pattern.len() <= 66, "{}", shared.by_pattern.len());
        assert!(Arc::ptr_eq(&kept, &shared.keep("kept", any()).0));
    }
}
