//! Groups that would inherit themselves.

use std::collections::HashSet;

use crate::holder::{Group, Groups};
use crate::node::Node;

/// The way by which a group would inherit itself if it had this parent: from the group to itself. Where and until when groups inherit
/// does not matter: a cycle that is not there yet is one all the same. One elsewhere, which was there before, does not count.
pub fn makes_cycle(groups: &Groups, group: &str, parent: &str) -> Option<Vec<String>> {
    let parents_of = |of: &str| if of == group { vec![parent] } else { parents(groups, of) };
    search([group], parents_of, |closing| closing == group)
}

/// A way from a group to itself, if there is any.
pub fn find_cycle(groups: &Groups) -> Option<Vec<String>> {
    search(groups.keys().map(String::as_str), |of| parents(groups, of), |_| true)
}

fn parents<'a>(groups: &'a Groups, of: &str) -> Vec<&'a str> {
    groups.get(of).map(|group| Group::nodes(group)).unwrap_or_default().iter().filter_map(Node::parent).map(|parent| &**parent).collect()
}

/// Depth first, each group once. `counts` is asked of the group at which a cycle closes.
fn search<'a>(
    starts: impl IntoIterator<Item = &'a str>,
    parents: impl Fn(&'a str) -> Vec<&'a str>,
    counts: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let mut seen: HashSet<&str> = HashSet::new();
    for start in starts {
        if !seen.insert(start) {
            continue;
        }
        // The way from `start`, and what is still to be followed of each.
        let mut way = vec![(start, parents(start).into_iter())];
        let mut on_way: HashSet<&str> = HashSet::from([start]);
        while let Some((at, next)) = way.last_mut() {
            let at = *at;
            match next.next() {
                Some(next) if on_way.contains(next) && counts(next) => {
                    let names = way.iter().map(|(name, _)| *name).skip_while(|name| *name != next);
                    return Some(names.chain([next]).map(str::to_owned).collect());
                }
                Some(next) if seen.insert(next) => {
                    way.push((next, parents(next).into_iter()));
                    on_way.insert(next);
                }
                Some(_) => {}
                None => {
                    on_way.remove(at);
                    way.pop();
                }
            }
        }
    }
    None
}
