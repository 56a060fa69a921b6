//! The shape of an export, and that no more is held of one than any network has: a few kilobytes of gzip can stand for gigabytes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use super::node::Raw;
use crate::budget::Budget;
use crate::format::{LeftOut, MAX_LEFT_OUT, shown};
use crate::node::Node;

/// Holders, tracks, their groups, and nodes, all together.
const MAX_ENTRIES: usize = 8_000_000;

#[derive(Default)]
pub(super) struct File {
    pub(super) groups: Entries<Holder>,
    pub(super) tracks: Entries<Steps>,
    pub(super) users: Entries<Holder>,
    pub(super) permission_holders: Entries<Holder>,
}

/// Holders or tracks with their names: a map's keys, each as often as it comes, or what each of a list says it is.
pub(super) struct Entries<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[derive(Default)]
pub(super) struct Holder {
    pub(super) kind: String,
    id: String,
    pub(super) display_name: Option<String>,
    pub(super) username: Option<String>,
    pub(super) primary_group: Option<String>,
    pub(super) nodes: Nodes,
}

#[derive(Default)]
pub(super) struct Steps {
    id: String,
    pub(super) groups: Names,
}

/// Names of a track's groups.
#[derive(Default)]
pub(super) struct Names(pub(super) Vec<String>);

/// Nodes of one holder. Paths of what is left out begin at the holder.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) taken: Vec<Node>,
    pub(super) left_out: Vec<LeftOut>,
    /// Left out without a word.
    pub(super) more_left_out: usize,
}

/// What the file may still hold.
pub(super) struct Limits {
    entries: usize,
    left_out: usize,
    budget: Budget,
}

impl File {
    pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limits = RefCell::new(Limits { entries: MAX_ENTRIES, left_out: MAX_LEFT_OUT, budget: Budget::of_file() });
        Within::new(&limits).deserialize(deserializer)
    }
}

impl Limits {
    fn entry<E: Error>(&mut self) -> Result<(), E> {
        let left = self.entries.checked_sub(1);
        self.entries = left.ok_or_else(|| E::custom(format!("it has more than {MAX_ENTRIES} entries: no network has so many")))?;
        Ok(())
    }
}

/// A part of the file: an object, or a list, or either.
trait Part: Sized {
    const EXPECTED: &'static str;

    fn of_map<'de, A: MapAccess<'de>>(_map: A, _limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Map, &Self::EXPECTED))
    }

    fn of_list<'de, A: SeqAccess<'de>>(_list: A, _limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Seq, &Self::EXPECTED))
    }
}

impl Part for File {
    const EXPECTED: &'static str = "an object of groups, tracks and users";

    fn of_map<'de, A: MapAccess<'de>>(map: A, limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        let mut file = Self::default();
        each_field(map, |field, map| {
            match field {
                "groups" => file.groups = map.next_value_seed(Within::new(limits))?,
                "tracks" => file.tracks = map.next_value_seed(Within::new(limits))?,
                "users" => file.users = map.next_value_seed(Within::new(limits))?,
                "permissionHolders" => file.permission_holders = map.next_value_seed(Within::new(limits))?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(file)
    }
}

impl<T: Part + Identified> Part for Entries<T> {
    const EXPECTED: &'static str = "entries by name";

    fn of_map<'de, A: MapAccess<'de>>(mut map: A, limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key()? {
            limits.borrow_mut().entry()?;
            entries.push((name, map.next_value_seed(Within::<T>::new(limits))?));
        }
        Ok(Self(entries))
    }

    fn of_list<'de, A: SeqAccess<'de>>(mut list: A, limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element_seed(Within::<T>::new(limits))? {
            limits.borrow_mut().entry()?;
            entries.push((entry.id().to_owned(), entry));
        }
        Ok(Self(entries))
    }
}

impl Part for Holder {
    const EXPECTED: &'static str = "a group or user";

    fn of_map<'de, A: MapAccess<'de>>(map: A, limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        let mut holder = Self::default();
        each_field(map, |field, map| {
            match field {
                "type" => holder.kind = map.next_value()?,
                "id" => holder.id = map.next_value()?,
                "displayName" => holder.display_name = map.next_value()?,
                "username" => holder.username = map.next_value()?,
                "primaryGroup" => holder.primary_group = map.next_value()?,
                "nodes" => holder.nodes = map.next_value_seed(Within::new(limits))?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(holder)
    }
}

impl Part for Steps {
    const EXPECTED: &'static str = "a track";

    fn of_map<'de, A: MapAccess<'de>>(map: A, limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        let mut steps = Self::default();
        each_field(map, |field, map| {
            match field {
                "id" => steps.id = map.next_value()?,
                "groups" => steps.groups = map.next_value_seed(Within::new(limits))?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(steps)
    }
}

impl Part for Names {
    const EXPECTED: &'static str = "a list of names";

    fn of_list<'de, A: SeqAccess<'de>>(mut list: A, limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            limits.borrow_mut().entry()?;
            names.push(name);
        }
        Ok(Self(names))
    }
}

impl Part for Nodes {
    const EXPECTED: &'static str = "a list of nodes";

    fn of_list<'de, A: SeqAccess<'de>>(mut list: A, limits: &RefCell<Limits>) -> Result<Self, A::Error> {
        let (mut nodes, mut index) = (Self::default(), 0_usize);
        let mut budget = Budget::of_holder();
        while let Some(raw) = list.next_element::<Raw>()? {
            let mut limits = limits.borrow_mut();
            limits.entry()?;
            let node = raw.node();
            if let Ok(node) = &node {
                // First: what the holder has no room for has been worked out all the same.
                limits.budget.take(node).map_err(A::Error::custom)?;
            }
            let fits = |node| budget.take(&node).map(|()| node).map_err(|exhausted| exhausted.to_string());
            match node.and_then(fits) {
                Ok(node) => nodes.taken.push(node),
                Err(problem) if limits.left_out > 0 => {
                    limits.left_out -= 1;
                    let path = format!("nodes[{index}] ({})", shown(raw.key().unwrap_or_default()));
                    nodes.left_out.push(LeftOut { path, problem });
                }
                Err(_) => nodes.more_left_out += 1,
            }
            index += 1;
        }
        Ok(nodes)
    }
}

/// Reads a part within the limits.
struct Within<'a, T> {
    limits: &'a RefCell<Limits>,
    part: PhantomData<T>,
}

impl<'a, T> Within<'a, T> {
    fn new(limits: &'a RefCell<Limits>) -> Self {
        Self { limits, part: PhantomData }
    }
}

impl<'de, T: Part> DeserializeSeed<'de> for Within<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Part> Visitor<'de> for Within<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::of_map(map, self.limits)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::of_list(list, self.limits)
    }
}

/// Goes over an object's fields, each of which comes once, and passes over those that are not taken.
fn each_field<'de, A: MapAccess<'de>>(mut map: A, mut take: impl FnMut(&str, &mut A) -> Result<bool, A::Error>) -> Result<(), A::Error> {
    let mut seen = BTreeSet::new();
    while let Some(field) = map.next_key::<String>()? {
        if seen.contains(&field) {
            return Err(A::Error::custom(format!("duplicate field `{field}`")));
        }
        match take(&field, &mut map)? {
            true => drop(seen.insert(field)),
            false => drop(map.next_value::<IgnoredAny>()?),
        }
    }
    Ok(())
}

/// What says itself what it is called.
trait Identified {
    fn id(&self) -> &str;
}

impl Identified for Holder {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Identified for Steps {
    fn id(&self) -> &str {
        &self.id
    }
}
