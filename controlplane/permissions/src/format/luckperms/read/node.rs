//! One node of an export. Whatever is wrong with it is no reason to refuse the file, and nothing of it is held that no node has.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use crate::context::{Contexts, MAX_CONTEXTS};
use crate::format::shown;
use crate::node::Node;

#[derive(serde::Deserialize, Default)]
#[serde(default)]
pub(super) struct Raw {
    key: Value,
    value: Value,
    expiry: Value,
    context: Value,
}

impl Raw {
    /// The key, if it is text.
    pub(super) fn key(&self) -> Option<&str> {
        match &self.key {
            Value::Text(key) => Some(key),
            _ => None,
        }
    }

    pub(super) fn node(&self) -> Result<Node, String> {
        let key = self.key().ok_or("expected a key")?;
        Node::new(key, self.truth()?, self.contexts()?, self.expires()?).map_err(|error| error.to_string())
    }

    fn truth(&self) -> Result<bool, String> {
        match &self.value {
            Value::Null => Ok(true),
            Value::Bool(value) => Ok(*value),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            other => Err(format!("value: expected true or false, got {other}")),
        }
    }

    /// Seconds since 1970; 0 is LuckPerms' word for never. Before 1970 it has been over ever since, and must not become "never".
    fn expires(&self) -> Result<Option<i64>, String> {
        let seconds = match &self.expiry {
            Value::Null => return Ok(None),
            Value::Number(number) => number.as_i64(),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        match seconds {
            Some(0) => Ok(None),
            Some(seconds) if seconds > 0 => Ok(Some(seconds)),
            _ => Err(format!("expiry: expected seconds since 1970, got {}", self.expiry)),
        }
    }

    fn contexts(&self) -> Result<Contexts, String> {
        let mut contexts = Contexts::none();
        let by_key = match &self.context {
            Value::Null => return Ok(contexts),
            Value::Map(by_key) => by_key,
            other => return Err(format!("context: expected keys and values, got {other}")),
        };
        for (key, values) in by_key {
            let values = match values {
                Value::List(values) => values,
                value => std::slice::from_ref(value),
            };
            for value in values {
                let value = match value {
                    Value::Text(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                    Value::Bool(value) => value.to_string(),
                    other => return Err(format!("context {}: expected text, got {other}", shown(key))),
                };
                contexts.add(key, &value).map_err(|error| error.to_string())?;
            }
        }
        Ok(contexts)
    }
}

/// Any JSON, as far as a node goes into it.
#[derive(Default)]
enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
    /// More than a node may have, or deeper than it goes.
    TooMuch,
}

/// As in a message to people.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{:?}", shown(text)),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("an object"),
            Self::TooMuch => f.write_str("more than a node may have"),
        }
    }
}

/// `{"world": ["lobby", "hub"]}`
const DEPTH: u8 = 2;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Within(DEPTH).deserialize(deserializer)
    }
}

/// Reads a value to this depth.
struct Within(u8);

impl<'de> DeserializeSeed<'de> for Within {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let (Some(depth), true) = (self.0.checked_sub(1), values.len() <= MAX_CONTEXTS) {
            match list.next_element_seed(Within(depth))? {
                Some(value) => values.push(value),
                None => return Ok(Value::List(values)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::TooMuch)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let (Some(depth), true) = (self.0.checked_sub(1), entries.len() <= MAX_CONTEXTS) {
            match map.next_key::<String>()? {
                Some(key) => entries.push((key, map.next_value_seed(Within(depth))?)),
                None => return Ok(Value::Map(entries)),
            }
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::TooMuch)
    }
}
