//! The rules again, as slow and as plain as they can be written: lists are walked, strings are built, nothing is prepared. Written from
//! the rules, not from the crate, of which it uses nothing but the settings.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use moonbridge_permissions::context::Satisfy;
use moonbridge_permissions::settings::{Duplicates, MetaSelection, Of, PrimaryGroup, Settings, Stack, Traversal};

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) key: String,
    pub(crate) value: bool,
    pub(crate) contexts: BTreeSet<(String, String)>,
    pub(crate) expiry: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) user: Vec<Node>,
    pub(crate) stored_primary: Option<String>,
    pub(crate) groups: BTreeMap<String, Vec<Node>>,
    pub(crate) tracks: BTreeMap<String, Vec<String>>,
    pub(crate) settings: Settings,
    pub(crate) contexts: BTreeSet<(String, String)>,
    pub(crate) now: i64,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Group(String),
    Prefix(i32, String),
    Suffix(i32, String),
    Meta(String, String),
    Weight(i32),
    DisplayName,
    Regex(String),
    Permission,
}

/// The user is the holder without a name.
type Holder = Option<String>;

impl Node {
    fn what(&self) -> What {
        let parts: Vec<&str> = self.key.split('.').collect();
        match parts[..] {
            ["group", ..] => What::Group(self.key["group.".len()..].to_owned()),
            ["prefix", priority, text] => What::Prefix(priority.parse().expect("a number"), text.to_owned()),
            ["suffix", priority, text] => What::Suffix(priority.parse().expect("a number"), text.to_owned()),
            ["meta", key, value] => What::Meta(key.to_owned(), value.to_owned()),
            ["weight", weight] => What::Weight(weight.parse().expect("a number")),
            ["displayname", _] => What::DisplayName,
            _ if self.key.starts_with("r=") => What::Regex(self.key[2..].to_owned()),
            _ => What::Permission,
        }
    }

    fn expired(&self, now: i64) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }

    fn is_wildcard(&self) -> bool {
        self.what() == What::Permission && (self.key == "*" || self.key == "'*'" || (self.key.ends_with(".*") && self.key != ".*"))
    }

    /// Sorts first what counts first.
    fn order(&self) -> impl Ord + use<> {
        let has = |wanted: &str| self.contexts.iter().any(|(key, _)| key == wanted);
        let rank = match self.what() {
            What::Group(_) => 0,
            What::Prefix(..) => 1,
            What::Suffix(..) => 2,
            What::Meta(..) => 3,
            What::Weight(_) => 4,
            What::DisplayName => 5,
            What::Regex(_) => 6,
            What::Permission => 7,
        };
        let contexts = (
            self.contexts.is_empty(),
            !has("server"),
            !has("world"),
            Reverse(self.contexts.len()),
            Reverse(self.contexts.iter().cloned().collect::<Vec<_>>()),
        );
        let level = if self.is_wildcard() { self.key.matches('.').count() } else { 0 };
        let times = (self.expiry.is_none(), self.is_wildcard(), self.expiry);
        // Permissions are the same in any case of their letters.
        let name = if self.what() == What::Permission { self.key.to_lowercase() } else { self.key.clone() };
        (contexts, rank, times, Reverse(level), name, self.value)
    }
}

impl World {
    fn satisfied(&self, node: &Node) -> bool {
        let keys: BTreeSet<&String> = node.contexts.iter().map(|(key, _)| key).collect();
        keys.into_iter().all(|key| {
            let mut values = node.contexts.iter().filter(|(other, _)| other == key);
            match self.settings.satisfy {
                Satisfy::One => values.any(|pair| self.contexts.contains(pair)),
                Satisfy::All => values.all(|pair| self.contexts.contains(pair)),
            }
        })
    }

    fn applies(&self, node: &Node) -> bool {
        !node.expired(self.now) && self.satisfied(node)
    }

    fn default_implied(&self) -> bool {
        !self
            .user
            .iter()
            .any(|node| matches!(node.what(), What::Group(_)) && node.value && node.contexts.is_empty() && !node.expired(self.now))
    }

    fn stored(&self) -> String {
        let stored = if self.default_implied() { None } else { self.stored_primary.clone() };
        stored.unwrap_or_else(|| "default".to_owned())
    }

    fn nodes(&self, holder: &Holder) -> Vec<Node> {
        let mut nodes = match holder {
            Some(group) => self.groups[group].clone(),
            None => self.user.clone(),
        };
        if holder.is_none() && self.default_implied() {
            nodes.retain(|node| !(node.key == "group.default" && node.contexts.is_empty() && node.expiry.is_none()));
            nodes.push(Node { key: "group.default".to_owned(), value: true, contexts: BTreeSet::new(), expiry: None });
        }
        nodes.sort_by_key(Node::order);
        nodes
    }

    fn applying(&self, holder: &Holder) -> Vec<Node> {
        self.nodes(holder).into_iter().filter(|node| self.applies(node)).collect()
    }

    fn weight(&self, group: &str) -> i32 {
        let weights = self.groups[group].iter().filter(|node| !node.expired(self.now)).filter_map(|node| match node.what() {
            What::Weight(weight) => Some(weight),
            _ => None,
        });
        weights.max().unwrap_or(0)
    }

    /// Existing parents in the order of the nodes.
    fn parents_by_node(&self, holder: &Holder) -> Vec<String> {
        let mut parents = Vec::new();
        for node in self.applying(holder).into_iter().filter(|node| node.value) {
            if let What::Group(name) = node.what()
                && self.groups.contains_key(&name)
                && !parents.contains(&name)
            {
                parents.push(name);
            }
        }
        parents
    }

    fn heaviest_first(&self, groups: &mut [String], for_user: bool) {
        groups.sort_by_key(|group| (Reverse(self.weight(group)), !(for_user && *group == self.stored())));
    }

    fn parents(&self, holder: &Holder) -> Vec<String> {
        let mut parents = self.parents_by_node(holder);
        self.heaviest_first(&mut parents, holder.is_none());
        parents
    }

    fn traverse(&self) -> Vec<Holder> {
        let mut walked = Vec::new();
        match self.settings.traversal {
            Traversal::DepthFirstPreOrder => self.pre_order(&None, &mut walked),
            Traversal::DepthFirstPostOrder => self.post_order(&None, &mut BTreeSet::new(), &mut walked),
            Traversal::BreadthFirst => {
                walked.push(None);
                let mut level = vec![None];
                while !level.is_empty() {
                    let mut next = Vec::new();
                    for parent in level.iter().flat_map(|holder| self.parents(holder)) {
                        if !walked.contains(&Some(parent.clone())) {
                            walked.push(Some(parent.clone()));
                            next.push(Some(parent));
                        }
                    }
                    level = next;
                }
            }
        }
        walked
    }

    fn pre_order(&self, holder: &Holder, walked: &mut Vec<Holder>) {
        if !walked.contains(holder) {
            walked.push(holder.clone());
            for parent in self.parents(holder) {
                self.pre_order(&Some(parent), walked);
            }
        }
    }

    fn post_order(&self, holder: &Holder, seen: &mut BTreeSet<Holder>, walked: &mut Vec<Holder>) {
        if seen.insert(holder.clone()) {
            for parent in self.parents(holder) {
                self.post_order(&Some(parent), seen, walked);
            }
            walked.push(holder.clone());
        }
    }

    fn sorted(&self, walked: Vec<Holder>) -> Vec<Holder> {
        let mut groups: Vec<String> = walked.into_iter().flatten().collect();
        self.heaviest_first(&mut groups, true);
        std::iter::once(None).chain(groups.into_iter().map(Some)).collect()
    }

    pub(crate) fn holders(&self) -> Vec<Holder> {
        let walked = self.traverse();
        if self.settings.sort_after_traversal { self.sorted(walked) } else { walked }
    }

    fn all(&self) -> Vec<(Holder, Node)> {
        self.holders().into_iter().flat_map(|holder| self.applying(&holder).into_iter().map(move |node| (holder.clone(), node))).collect()
    }

    /// What is said of exactly this string: written out, else by a shorthand.
    fn said(&self, key: &str) -> Option<bool> {
        let all = self.all();
        let direct = all.iter().find(|(_, node)| node.key.to_lowercase() == key);
        let by_shorthand = || {
            let stands_for = |node: &Node| node.what() == What::Permission && shorthand(&node.key).contains(key);
            all.iter().find(|(_, node)| self.settings.shorthand && stands_for(node))
        };
        direct.or_else(by_shorthand).map(|(_, node)| node.value)
    }

    pub(crate) fn check(&self, permission: &str) -> Option<bool> {
        let permission = permission.to_lowercase();
        self.said(&permission)
            .or_else(|| self.by_regex(&permission))
            .or_else(|| if self.settings.wildcards { self.by_wildcard(&permission) } else { None })
            .or_else(|| if self.settings.implicit_wildcards { self.by_beginning(&permission) } else { None })
    }

    fn by_regex(&self, permission: &str) -> Option<bool> {
        let matches = |node: &Node| match node.what() {
            What::Regex(pattern) => regex::Regex::new(&format!("(?i)^(?:{pattern})$")).expect("a regex").is_match(permission),
            _ => false,
        };
        let found = self.all().into_iter().find(|(_, node)| self.settings.regex && matches(node));
        found.map(|(_, node)| node.value)
    }

    fn by_wildcard(&self, permission: &str) -> Option<bool> {
        let beginnings = beginnings(permission);
        let wildcards = beginnings.into_iter().map(|beginning| format!("{beginning}.*")).chain(["*".to_owned(), "'*'".to_owned()]);
        wildcards.into_iter().find_map(|wildcard| self.said(&wildcard))
    }

    fn by_beginning(&self, permission: &str) -> Option<bool> {
        beginnings(permission).iter().find_map(|beginning| self.said(beginning))
    }

    pub(crate) fn primary_group(&self) -> String {
        let found = match self.settings.primary_group {
            PrimaryGroup::ParentsByWeight => {
                let parents = self.parents_by_node(&None);
                let heaviest = parents.iter().map(|group| self.weight(group)).max();
                parents.into_iter().find(|group| Some(self.weight(group)) == heaviest)
            }
            PrimaryGroup::AllParentsByWeight => self.sorted(self.traverse()).into_iter().flatten().next(),
            PrimaryGroup::Stored => {
                let everywhere =
                    self.nodes(&None).into_iter().filter(|node| node.contexts.is_empty() && !node.expired(self.now) && node.value);
                let groups = everywhere.filter_map(|node| if let What::Group(group) = node.what() { Some(group) } else { None });
                let groups: Vec<String> = groups.collect();
                if groups.contains(&self.stored()) { None } else { groups.first().cloned() }
            }
        };
        found.unwrap_or_else(|| self.stored())
    }

    /// Nodes of meta, prefixes and suffixes that are true and not cancelled by what comes before.
    fn meta_nodes(&self) -> Vec<(Holder, Node)> {
        let all = self.all();
        let first = |place: usize| !all[..place].iter().any(|(_, before)| before.key == all[place].1.key);
        (0..all.len()).filter(|&place| first(place) && all[place].1.value).map(|place| all[place].clone()).collect()
    }

    pub(crate) fn meta(&self) -> BTreeMap<String, String> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, node) in self.meta_nodes() {
            if let What::Meta(key, value) = node.what() {
                values.entry(key).or_default().push(value);
            }
        }
        let select = |key: &String, values: &Vec<String>| {
            let numbers: Vec<i64> = values.iter().filter_map(|value| value.parse().ok()).collect();
            let number = match self.settings.meta_selection_of.get(key).unwrap_or(&self.settings.meta_selection) {
                MetaSelection::Inheritance => None,
                MetaSelection::HighestNumber => numbers.iter().max(),
                MetaSelection::LowestNumber => numbers.iter().min(),
            };
            number.map_or_else(|| values[0].clone(), i64::to_string)
        };
        values.iter().map(|(key, values)| (key.clone(), select(key, values))).collect()
    }

    pub(crate) fn prefix(&self) -> Option<String> {
        let prefixes = self.meta_nodes().into_iter().filter_map(|(holder, node)| match node.what() {
            What::Prefix(priority, text) => Some((holder, priority, text)),
            _ => None,
        });
        self.stacked(&self.settings.prefix, prefixes.collect())
    }

    pub(crate) fn suffix(&self) -> Option<String> {
        let suffixes = self.meta_nodes().into_iter().filter_map(|(holder, node)| match node.what() {
            What::Suffix(priority, text) => Some((holder, priority, text)),
            _ => None,
        });
        self.stacked(&self.settings.suffix, suffixes.collect())
    }

    fn stacked(&self, stack: &Stack, all: Vec<(Holder, i32, String)>) -> Option<String> {
        let mut texts: Vec<String> = Vec::new();
        for element in &stack.elements {
            let mut fit: Vec<_> = all.iter().filter(|(holder, ..)| self.fits(&element.of, holder)).collect();
            fit.sort_by_key(|(_, priority, _)| if element.highest { -i64::from(*priority) } else { i64::from(*priority) });
            texts.extend(fit.first().map(|(.., text)| text.clone()));
        }
        let kept: Vec<String> = (0..texts.len())
            .filter(|&place| match stack.duplicates {
                Duplicates::RetainAll => true,
                Duplicates::FirstOnly => !texts[..place].contains(&texts[place]),
                Duplicates::LastOnly => !texts[place + 1..].contains(&texts[place]),
            })
            .map(|place| texts[place].clone())
            .collect();
        if kept.is_empty() { None } else { Some(stack.start_spacer.clone() + &kept.join(&stack.middle_spacer) + &stack.end_spacer) }
    }

    fn fits(&self, of: &Of, holder: &Holder) -> bool {
        let on = |track: &String| holder.as_ref().is_some_and(|group| self.tracks[track].contains(group));
        match of {
            Of::Any => true,
            Of::Own => holder.is_none(),
            Of::Inherited => holder.is_some(),
            Of::OnTrack(track) => self.tracks.contains_key(track) && on(track),
            Of::NotOnTrack(track) => self.tracks.contains_key(track) && !on(track),
            Of::FromGroup(group) => holder.as_ref() == Some(group),
            Of::NotFromGroup(group) => holder.as_ref() != Some(group),
        }
    }
}

/// `a.b.c`: `a.b`, `a`.
fn beginnings(permission: &str) -> Vec<String> {
    let parts: Vec<&str> = permission.split('.').collect();
    (1..parts.len()).rev().map(|length| parts[..length].join(".")).filter(|beginning| !beginning.is_empty()).collect()
}

/// Lists and ranges of single characters.
fn shorthand(key: &str) -> BTreeSet<String> {
    let Some(open) = key.find(['{', '(']) else { return BTreeSet::from([key.to_lowercase()]) };
    let close = key.find(['}', ')']).expect("it closes");
    let between = &key[open + 1..close];
    let parts: Vec<String> = match between.as_bytes() {
        &[from, b'-', to] => (from..=to).map(|byte| char::from(byte).to_string()).collect(),
        _ => between.split([',', '|']).filter(|part| !part.is_empty()).map(str::to_owned).collect(),
    };
    parts.iter().flat_map(|part| shorthand(&format!("{}{part}{}", &key[..open], &key[close + 1..]))).collect()
}
