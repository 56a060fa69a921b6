//! Collecting every mistake of a message, each with the path of its field.

use super::Revision;
use crate::v1;

/// More are not listed: a message of mistakes must not become a message too large to send.
const MOST: usize = 100;

#[derive(Default)]
pub(super) struct Mistakes {
    list: Vec<v1::FieldError>,
}

impl Mistakes {
    pub(super) fn add(&mut self, at: &At, problem: impl Into<String>) {
        if self.list.len() < MOST {
            self.list.push(v1::FieldError { path: at.path.clone(), problem: problem.into() });
        }
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, Vec<v1::FieldError>> {
        if self.list.is_empty() { Ok(value) } else { Err(self.list) }
    }
}

/// Where in the message we are.
pub(super) struct At {
    path: String,
}

impl At {
    pub(super) fn root() -> Self {
        Self { path: String::new() }
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{name}", self.path) }
    }

    pub(super) fn item(&self, list: &str, index: usize) -> Self {
        let At { path } = self.field(list);
        Self { path: format!("{path}[{index}]") }
    }
}

pub(super) fn revision(raw: Option<v1::Revision>, at: &At, mistakes: &mut Mistakes) -> Revision {
    let Some(raw) = raw else {
        mistakes.add(at, "missing; expected the store's id and a number");
        return Revision::default();
    };
    if raw.store_id.is_empty() {
        mistakes.add(&at.field("store_id"), "empty; expected the store's id");
    }
    raw.into()
}

/// A value from outside, shortened for a message.
pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 80;
    match value.char_indices().nth(LONGEST) {
        None => format!("{value:?}"),
        Some((cut, _)) => format!("{:?}…", &value[..cut]),
    }
}
