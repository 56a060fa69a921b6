//! The holders that a user inherits, in the order in which they count.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::Query;
use crate::holder::{DEFAULT_GROUP, Group};
use crate::node::Node;
use crate::settings::Traversal;

/// The node that nobody wrote.
static DEFAULT: LazyLock<Node> = LazyLock::new(|| Node::inheritance(&Arc::from(DEFAULT_GROUP)));

/// A user or one of its groups.
#[derive(Clone, Copy)]
pub(crate) enum Holder<'a> {
    User,
    Group(&'a Arc<Group>),
}

/// All holders, each once.
pub(crate) struct Walk<'a> {
    holders: Vec<Holder<'a>>,
    missing: Vec<Arc<str>>,
    /// The user's nodes in the order in which they count, with [`DEFAULT`] where it is implied.
    own: Vec<&'a Node>,
    stored_primary: &'a str,
    /// From which holder each group was come to.
    led_here: HashMap<&'a str, Holder<'a>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn of(query: &Query<'a>) -> Self {
        let implied = query.user.has_default_implied(query.now);
        let mut own: Vec<&Node> = query.user.nodes.iter().collect();
        if implied {
            // It takes the place of one that denies it.
            own.retain(|node| !node.is_same(&DEFAULT));
            own.push(&DEFAULT);
        }
        own.sort_by(|a, b| a.precedence(b));
        // Who is put into the default group gets it as stored primary group, too.
        let stored_primary = query.user.primary_group.as_deref().filter(|_| !implied).unwrap_or(DEFAULT_GROUP);
        let mut walk = Self { holders: Vec::new(), missing: Vec::new(), own, stored_primary, led_here: HashMap::new() };
        match query.settings.traversal {
            Traversal::DepthFirstPreOrder => walk.depth_first(query, false),
            Traversal::DepthFirstPostOrder => walk.depth_first(query, true),
            Traversal::BreadthFirst => walk.breadth_first(query),
        }
        if query.settings.sort_after_traversal {
            walk.holders = walk.by_weight(query);
        }
        walk
    }

    pub(crate) fn holders(&self) -> &[Holder<'a>] {
        &self.holders
    }

    /// The nodes of a holder, in the order in which they count.
    pub(crate) fn nodes(&self, holder: Holder<'a>) -> impl Iterator<Item = &'a Node> {
        let (own, group) = match holder {
            Holder::User => (Some(&self.own), None),
            Holder::Group(group) => (None, Some(group)),
        };
        own.into_iter().flatten().copied().chain(group.into_iter().flat_map(|group| group.in_order()))
    }

    /// How many nodes there are.
    pub(crate) fn size(&self) -> usize {
        self.holders.iter().map(|holder| holder.group().map_or(self.own.len(), |group| group.nodes().len())).sum()
    }

    /// The primary group that is stored for the user.
    pub(crate) fn stored_primary(&self) -> &'a str {
        self.stored_primary
    }

    /// The groups that the user inherits everywhere, existing or not.
    pub(crate) fn parents_everywhere(&self, now: i64) -> impl Iterator<Item = &'a Arc<str>> {
        let everywhere = move |node: &&&Node| node.contexts().is_empty() && !node.has_expired(now);
        self.own.iter().filter(everywhere).filter_map(|node| node.parent())
    }

    /// The user's own parents in the order of its nodes.
    pub(crate) fn own_parents(&self, query: &Query<'a>) -> impl Iterator<Item = &'a Arc<Group>> {
        let applying = self.own.iter().filter(|node| query.applies(node));
        applying.filter_map(|node| node.parent()).filter_map(|name| query.groups.get(&**name))
    }

    /// All holders by weight, the user first.
    pub(crate) fn by_weight(&self, query: &Query<'a>) -> Vec<Holder<'a>> {
        let mut sorted = self.holders.clone();
        sorted.sort_by_cached_key(|holder| holder.group().map(|group| self.heaviest_first(query, group, Holder::User)));
        sorted
    }

    /// The groups' names on the way from the user to a holder, which comes last.
    pub(crate) fn path(&self, holder: Holder<'a>) -> Vec<String> {
        let mut path = Vec::new();
        let mut at = holder;
        while let Some(group) = at.group() {
            path.push(group.name().to_string());
            match self.led_here.get(&**group.name()) {
                Some(&before) => at = before,
                None => break,
            }
        }
        path.push("user".to_owned());
        path.reverse();
        path
    }

    /// The groups that were walked, and those that would have been if they existed.
    pub(crate) fn into_groups(self) -> (Vec<Arc<Group>>, Vec<Arc<str>>) {
        (self.holders.into_iter().filter_map(Holder::group).map(Arc::clone).collect(), self.missing)
    }

    fn depth_first(&mut self, query: &Query<'a>, parents_first: bool) {
        let mut open = vec![(Holder::User, self.parents(query, Holder::User).into_iter())];
        if !parents_first {
            self.holders.push(Holder::User);
        }
        while let Some((holder, parents)) = open.last_mut() {
            let holder = *holder;
            match parents.next() {
                Some(group) if self.is_new(group, holder) => {
                    if !parents_first {
                        self.holders.push(Holder::Group(group));
                    }
                    open.push((Holder::Group(group), self.parents(query, Holder::Group(group)).into_iter()));
                }
                Some(_) => {}
                None => {
                    if parents_first {
                        self.holders.push(holder);
                    }
                    open.pop();
                }
            }
        }
    }

    fn breadth_first(&mut self, query: &Query<'a>) {
        self.holders.push(Holder::User);
        let mut at = 0;
        while let Some(&holder) = self.holders.get(at) {
            for group in self.parents(query, holder) {
                if self.is_new(group, holder) {
                    self.holders.push(Holder::Group(group));
                }
            }
            at += 1;
        }
    }

    fn is_new(&mut self, group: &'a Arc<Group>, from: Holder<'a>) -> bool {
        let mut new = false;
        self.led_here.entry(&**group.name()).or_insert_with(|| {
            new = true;
            from
        });
        new
    }

    /// A holder's parents, each once: heavier ones first, then a user's stored primary group, then in the order of the nodes.
    fn parents(&mut self, query: &Query<'a>, holder: Holder<'a>) -> Vec<&'a Arc<Group>> {
        let mut missing = Vec::new();
        let mut parents: Vec<&Arc<Group>> = Vec::new();
        for node in self.nodes(holder) {
            let Some(name) = node.parent().filter(|_| query.applies(node)) else { continue };
            match query.groups.get(&**name) {
                Some(group) => parents.push(group),
                None => missing.push(Arc::clone(name)),
            }
        }
        self.missing.extend(missing);
        // The sort is stable, and of a group that comes twice the second is passed over when it is come to.
        parents.sort_by_cached_key(|group| self.heaviest_first(query, group, holder));
        parents
    }

    fn heaviest_first(&self, query: &Query<'a>, group: &Group, child: Holder<'a>) -> (Reverse<i32>, bool) {
        let is_primary = matches!(child, Holder::User) && **group.name() == *self.stored_primary;
        (Reverse(group.weight(query.now).unwrap_or(0)), !is_primary)
    }
}

impl<'a> Holder<'a> {
    pub(crate) fn group(self) -> Option<&'a Arc<Group>> {
        match self {
            Self::User => None,
            Self::Group(group) => Some(group),
        }
    }
}
