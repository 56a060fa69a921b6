//! Which node a permission is decided by: exactly the same, then regular expressions, then wildcards, then, if that is wished, the
//! beginning.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use regex::Regex;

use crate::node::{Kind, Node, lower};
use crate::settings::Settings;

/// Permissions up to this long, in lower case and in bytes, are looked up without allocating.
const ON_STACK: usize = 255;

/// What all nodes that apply come to. A table of std's withstands keys made to collide.
#[derive(Debug)]
pub(super) struct Lookup {
    table: HashMap<Key, bool>,
    regexes: Vec<(Arc<Regex>, bool)>,
    /// In bytes: nothing longer needs to be looked up, so that a long permission costs no more than its length.
    longest: usize,
    longest_wildcard: usize,
    wildcards: bool,
    regex: bool,
    shorthand: bool,
    implicit: bool,
}

/// A key in lower case that is found by its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Key(Arc<str>);

impl Lookup {
    pub(super) fn new(settings: &Settings, size: usize) -> Self {
        Self {
            table: HashMap::with_capacity(size),
            regexes: Vec::new(),
            longest: 0,
            longest_wildcard: 0,
            wildcards: settings.wildcards,
            regex: settings.regex,
            shorthand: settings.shorthand,
            implicit: settings.implicit_wildcards,
        }
    }

    /// What is added first counts. Whatever a node is, its key can be asked for: whoever has `group.mod` has the permission `group.mod`.
    pub(super) fn add(&mut self, node: &Node) {
        self.put(node.lower(), node.value());
        if let (true, Kind::Regex(regex)) = (self.regex, node.kind()) {
            self.regexes.push((Arc::clone(regex), node.value()));
        }
    }

    /// Only when all nodes have been added.
    pub(super) fn add_expanded(&mut self, node: &Node) {
        if self.shorthand {
            node.expanded().iter().for_each(|key| self.put(key, node.value()));
        }
    }

    fn put(&mut self, key: &Arc<str>, value: bool) {
        self.longest = self.longest.max(key.len());
        if key.ends_with('*') || &**key == "'*'" {
            self.longest_wildcard = self.longest_wildcard.max(key.len());
        }
        self.table.entry(Key(Arc::clone(key))).or_insert(value);
    }

    pub(super) fn check(&self, permission: &str) -> Option<bool> {
        let mut buffer = [0; ON_STACK + 1];
        match lower_into(permission, &mut buffer[..ON_STACK]) {
            Some(length) => self.look_up(&mut buffer[..=length]),
            None => {
                let mut buffer = lower(permission).into_bytes();
                buffer.push(0);
                self.look_up(&mut buffer)
            }
        }
    }

    /// The permission is followed by a byte for the wildcard after a dot at its end.
    fn look_up(&self, buffer: &mut [u8]) -> Option<bool> {
        let length = buffer.len() - 1;
        self.get(&buffer[..length])
            .or_else(|| self.by_regex(&buffer[..length]))
            .or_else(|| self.by_wildcard(buffer, length))
            .or_else(|| self.by_beginning(&buffer[..length]))
    }

    fn get(&self, key: &[u8]) -> Option<bool> {
        self.table.get(key).copied()
    }

    fn by_regex(&self, permission: &[u8]) -> Option<bool> {
        if self.regexes.is_empty() {
            return None;
        }
        let permission = std::str::from_utf8(permission).ok()?;
        self.regexes.iter().find(|(regex, _)| regex.is_match(permission)).map(|(_, value)| *value)
    }

    /// Puts the star behind each dot in turn, from the right.
    fn by_wildcard(&self, buffer: &mut [u8], length: usize) -> Option<bool> {
        if !self.wildcards || self.longest_wildcard == 0 {
            return None;
        }
        let mut end = length;
        while let Some(dot) = last_dot(&buffer[..end]) {
            if dot + 2 <= self.longest_wildcard {
                let replaced = std::mem::replace(&mut buffer[dot + 1], b'*');
                let found = self.get(&buffer[..dot + 2]);
                buffer[dot + 1] = replaced;
                if found.is_some() {
                    return found;
                }
            }
            end = dot;
        }
        self.get(b"*").or_else(|| self.get(b"'*'"))
    }

    fn by_beginning(&self, permission: &[u8]) -> Option<bool> {
        if !self.implicit {
            return None;
        }
        let mut end = permission.len();
        while let Some(dot) = last_dot(&permission[..end]) {
            let found = if dot <= self.longest { self.get(&permission[..dot]) } else { None };
            if found.is_some() {
                return found;
            }
            end = dot;
        }
        None
    }
}

/// Where the last dot is that something precedes.
fn last_dot(text: &[u8]) -> Option<usize> {
    text.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0)
}

/// As [`lower`], if there is room.
fn lower_into(text: &str, buffer: &mut [u8]) -> Option<usize> {
    if text.is_ascii() {
        let room = buffer.get_mut(..text.len())?;
        room.copy_from_slice(text.as_bytes());
        room.make_ascii_lowercase();
        return Some(text.len());
    }
    let mut length = 0;
    for c in text.chars().flat_map(char::to_lowercase) {
        let room = buffer.get_mut(length..length + c.len_utf8())?;
        length += c.encode_utf8(room).len();
    }
    Some(length)
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// As its bytes, or it would not be found.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_bytes().hash(state);
    }
}
