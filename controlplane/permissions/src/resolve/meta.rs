//! Prefix, suffix and meta.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{Holder, Query};
use crate::holder::Tracks;
use crate::node::{Kind, Node};
use crate::settings::{Duplicates, Element, MetaSelection, Of, Settings, Stack};

#[derive(Debug)]
pub(super) struct Meta {
    pub(super) prefix: Option<String>,
    pub(super) suffix: Option<String>,
    pub(super) values: BTreeMap<Arc<str>, Arc<str>>,
}

/// Gathers what nodes say, in the order in which they count.
pub(super) struct Accumulator<'a> {
    settings: &'a Settings,
    /// By key, true or false: what comes first counts, so that a false one cancels the same one further on.
    seen: HashSet<&'a str>,
    prefix: Stacked<'a>,
    suffix: Stacked<'a>,
    values: BTreeMap<&'a Arc<str>, Vec<&'a Arc<str>>>,
}

impl<'a> Accumulator<'a> {
    pub(super) fn new(query: &Query<'a>) -> Self {
        let (settings, tracks) = (query.settings, query.tracks);
        let (prefix, suffix) = (Stacked::new(&settings.prefix, tracks), Stacked::new(&settings.suffix, tracks));
        Self { settings, seen: HashSet::new(), prefix, suffix, values: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, node: &'a Node, holder: Holder<'_>) {
        if !matches!(node.kind(), Kind::Prefix(..) | Kind::Suffix(..) | Kind::Meta(..)) || !self.seen.insert(node.key()) || !node.value() {
            return;
        }
        match node.kind() {
            Kind::Prefix(priority, text) => self.prefix.offer(*priority, text, holder),
            Kind::Suffix(priority, text) => self.suffix.offer(*priority, text, holder),
            Kind::Meta(key, value) => self.values.entry(key).or_default().push(value),
            _ => {}
        }
    }

    pub(super) fn finish(self) -> Meta {
        let settings = self.settings;
        let select = |(key, values): (&Arc<str>, Vec<&Arc<str>>)| {
            let selection = settings.meta_selection_of.get(&**key).unwrap_or(&settings.meta_selection);
            selection.of(&values).map(|value| (Arc::clone(key), Arc::clone(value)))
        };
        Meta { prefix: self.prefix.finish(), suffix: self.suffix.finish(), values: self.values.into_iter().filter_map(select).collect() }
    }
}

impl MetaSelection {
    /// Of equal numbers the first; what is no number does not count, unless none is.
    fn of<'a>(self, values: &[&'a Arc<str>]) -> Option<&'a Arc<str>> {
        let number = |value: &&'a Arc<str>| value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let numbers = values.iter().filter_map(|value| Some((number(value)?, *value)));
        let selected = match self {
            Self::Inheritance => None,
            Self::HighestNumber => numbers.reduce(|best, other| if other.0 > best.0 { other } else { best }),
            Self::LowestNumber => numbers.reduce(|best, other| if other.0 < best.0 { other } else { best }),
        };
        selected.map(|(_, value)| value).or_else(|| values.first().copied())
    }
}

/// A prefix or suffix in the making: what each element of its stack has chosen so far.
struct Stacked<'a> {
    stack: &'a Stack,
    tracks: &'a Tracks,
    chosen: Vec<Option<(i32, &'a Arc<str>)>>,
}

impl<'a> Stacked<'a> {
    fn new(stack: &'a Stack, tracks: &'a Tracks) -> Self {
        Self { stack, tracks, chosen: vec![None; stack.elements.len()] }
    }

    /// Of the same priority the first stays.
    fn offer(&mut self, priority: i32, text: &'a Arc<str>, holder: Holder<'_>) {
        for (element, chosen) in self.stack.elements.iter().zip(&mut self.chosen) {
            let better = chosen.is_none_or(|(current, _)| if element.highest { priority > current } else { priority < current });
            if better && element.takes(holder, self.tracks) {
                *chosen = Some((priority, text));
            }
        }
    }

    fn finish(self) -> Option<String> {
        let mut texts: Vec<&str> = self.chosen.into_iter().flatten().map(|(_, text)| &**text).collect();
        match self.stack.duplicates {
            Duplicates::RetainAll => {}
            Duplicates::FirstOnly => keep_first(&mut texts),
            Duplicates::LastOnly => {
                texts.reverse();
                keep_first(&mut texts);
                texts.reverse();
            }
        }
        let Stack { start_spacer, middle_spacer, end_spacer, .. } = self.stack;
        (!texts.is_empty()).then(|| format!("{start_spacer}{}{end_spacer}", texts.join(middle_spacer)))
    }
}

fn keep_first(texts: &mut Vec<&str>) {
    let mut seen = HashSet::new();
    texts.retain(|text| seen.insert(*text));
}

impl Element {
    fn takes(&self, holder: Holder<'_>, tracks: &Tracks) -> bool {
        let group = holder.group().map(|group| group.name());
        let is_on = |groups: &[Arc<str>]| group.is_some_and(|group| groups.contains(group));
        match &self.of {
            Of::Any => true,
            Of::Own => group.is_none(),
            Of::Inherited => group.is_some(),
            // Of a track that does not exist nobody is on, and nobody is not.
            Of::OnTrack(track) => tracks.get(track).is_some_and(|track| is_on(track.groups())),
            Of::NotOnTrack(track) => tracks.get(track).is_some_and(|track| !is_on(track.groups())),
            Of::FromGroup(name) => group.is_some_and(|group| **group == **name),
            Of::NotFromGroup(name) => group.is_none_or(|group| **group != **name),
        }
    }
}
