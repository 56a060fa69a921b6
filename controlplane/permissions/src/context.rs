//! Contexts: where a node applies, and where a question is asked.

use std::fmt;
use std::sync::Arc;

/// The context key of the proxy's name.
pub const SERVER: &str = "server";
/// The context key of the backend that the player is on.
pub const WORLD: &str = "world";

/// The most pairs there may be.
pub const MAX_CONTEXTS: usize = 500;

/// A set of key and value pairs, sorted, none twice, all in lower case and not empty. A key may have several values.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contexts(Vec<(Arc<str>, Arc<str>)>);

/// What is wrong with a context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// The key or the value is empty.
    #[error("expected a context as KEY=VALUE, neither of them empty, got {0:?}")]
    Empty(String),
    /// There are too many.
    #[error("expected at most {MAX_CONTEXTS} contexts")]
    TooMany,
}

/// How many of a node's values for one key a question must have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Satisfy {
    /// One of them (LuckPerms' `at-least-one-value-per-key`).
    #[default]
    One,
    /// All of them (`all-values-per-key`).
    All,
}

impl Contexts {
    /// No contexts: everywhere.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a pair; keys and values are trimmed and lower-cased, as LuckPerms does.
    ///
    /// # Errors
    /// If one of them is empty, or there are too many.
    pub fn add(&mut self, key: &str, value: &str) -> Result<(), ContextError> {
        let (key, value) = (key.trim().to_lowercase(), value.trim().to_lowercase());
        if key.is_empty() || value.is_empty() {
            return Err(ContextError::Empty(format!("{key}={value}")));
        }
        // To LuckPerms these two say "everywhere", in nodes and in questions.
        if matches!(&*key, SERVER | WORLD) && value == "global" {
            return Ok(());
        }
        let pair: (Arc<str>, Arc<str>) = (key.into(), value.into());
        if let Err(place) = self.0.binary_search(&pair) {
            if self.0.len() == MAX_CONTEXTS {
                return Err(ContextError::TooMany);
            }
            self.0.insert(place, pair);
        }
        Ok(())
    }

    /// These pairs.
    ///
    /// # Errors
    /// If a key or value is empty, or there are too many.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ContextError> {
        let mut contexts = Self::none();
        for (key, value) in pairs {
            contexts.add(key, value)?;
        }
        Ok(contexts)
    }

    /// Takes out every value of a key.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(existing, _)| &**existing != key);
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is any value of this key.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(existing, _)| &**existing == key)
    }

    /// Whether something with these contexts applies to a question with those of `query`.
    pub fn is_satisfied_by(&self, query: &Contexts, mode: Satisfy) -> bool {
        self.0.chunk_by(|(a, _), (b, _)| a == b).all(|values| match mode {
            Satisfy::One => values.iter().any(|pair| query.0.binary_search(pair).is_ok()),
            Satisfy::All => values.iter().all(|pair| query.0.binary_search(pair).is_ok()),
        })
    }
}

/// `server=proxy, world=lobby`, or `everywhere`.
impl fmt::Display for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "everywhere");
        }
        for (i, (key, value)) in self.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
