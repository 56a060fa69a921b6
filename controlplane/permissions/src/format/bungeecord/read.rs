//! Reading `config.yml`. In YAML something that is written once can be there a million times over, so what comes of it is counted.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Config;

/// Escapes make bytes more, but not twice as many.
const LARGER: usize = 2;

/// Reads it from a YAML reader, of a text of so many bytes.
///
/// # Errors
/// If something is of another type, or there is more than such a text can hold.
pub fn read<'de, D: Deserializer<'de>>(yaml: D, bytes: usize) -> Result<Config, D::Error> {
    yaml.deserialize_map(Top(&Room(Cell::new(bytes.saturating_mul(LARGER)))))
}

/// How much may still come.
struct Room(Cell<usize>);

impl Room {
    /// An entry is its text and at least one character that tells it from the next.
    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(bytes + 1);
        self.0.set(left.ok_or_else(|| E::custom("aliases repeat what is in it without end: write it out"))?);
        Ok(())
    }

    fn text<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<String, D::Error> {
        let text = String::deserialize(deserializer)?;
        self.take(text.len())?;
        Ok(text)
    }
}

/// The file.
struct Top<'a>(&'a Room);

impl<'de> Visitor<'de> for Top<'_> {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BungeeCord's settings by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
        let (mut permissions, mut groups) = (None, None);
        while let Some(field) = map.next_key_seed(Text(self.0))? {
            let (name, section) = match &*field {
                "permissions" => ("permissions", &mut permissions),
                "groups" => ("groups", &mut groups),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if section.replace(map.next_value_seed(Lists(self.0))?).is_some() {
                return Err(A::Error::duplicate_field(name));
            }
        }
        Ok(Config { permissions: permissions.unwrap_or_default(), groups: groups.unwrap_or_default() })
    }
}

struct Text<'a>(&'a Room);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        self.0.text(deserializer)
    }
}

/// Lists by name; nothing is none.
struct Lists<'a>(&'a Room);

impl<'de> DeserializeSeed<'de> for Lists<'_> {
    type Value = BTreeMap<String, Vec<String>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Lists<'_> {
    type Value = BTreeMap<String, Vec<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lists by name")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut lists = BTreeMap::new();
        while let Some(name) = map.next_key_seed(Text(self.0))? {
            lists.insert(name, map.next_value_seed(List(self.0))?);
        }
        Ok(lists)
    }
}

/// A list; nothing is an empty one.
struct List<'a>(&'a Room);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: Error>(self) -> Result<Vec<String>, E> {
        Ok(Vec::new())
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<String>, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element_seed(Text(self.0))? {
            texts.push(text);
        }
        Ok(texts)
    }
}
