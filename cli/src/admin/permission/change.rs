//! What a changing verb asks for, as the one edit that is sent.

use clap::Args;
use moonbridge_permissions::{Node, node};
use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_edit::Edit;

use super::contexts;
use crate::args::permission::{
    AddAffix, Change, ChangeVerb, ClearArg, IfExistsArg, MetaVerb, ParentVerb, RemoveAffix, Temporary, Until, Which,
};
use crate::failure::{Failure, Outcome};
use crate::time;

/// An edit of somebody's nodes.
#[derive(Debug)]
pub(super) struct Wanted<H> {
    /// Whose.
    pub(super) holder: H,
    pub(super) edit: Edit,
    pub(super) expected_revision: Option<u64>,
}

/// How the key of a prefix or suffix is written.
type AffixKey = fn(i32, &str) -> String;

/// The edit that a verb asks for.
pub(super) fn wanted<H: Args>(verb: ChangeVerb<H>) -> Outcome<Wanted<H>> {
    match verb {
        ChangeVerb::Set { change, node, value, temporary } => set(change, &node, value, &temporary),
        ChangeVerb::Unset { change, node, which } => unset(change, node, which),
        ChangeVerb::Parent { verb } => parent(verb),
        ChangeVerb::Meta { verb } => meta(verb),
        ChangeVerb::Clear { change, what } => clear(change, what),
    }
}

fn parent<H: Args>(verb: ParentVerb<H>) -> Outcome<Wanted<H>> {
    match verb {
        ParentVerb::Add { change, group, temporary } => set(change, &node::key::inheritance(&group), true, &temporary),
        ParentVerb::Remove { change, group, which } => unset(change, node::key::inheritance(&group), which),
        ParentVerb::Set { change, group, until } => {
            let (contexts, expiry) = (contexts(&change.contexts)?, expiry(&until, time::now())?);
            Ok(of(change, Edit::SetParent(v1::SetParent { group, contexts, expiry })))
        }
    }
}

fn meta<H: Args>(verb: MetaVerb<H>) -> Outcome<Wanted<H>> {
    match verb {
        MetaVerb::Set { change, key, value, until } => {
            let (contexts, expiry) = (contexts(&change.contexts)?, expiry(&until, time::now())?);
            Ok(of(change, Edit::SetMeta(v1::SetMeta { key, value, contexts, expiry })))
        }
        MetaVerb::Unset { change, key, which } => {
            let contexts = contexts(&change.contexts)?;
            Ok(of(change, Edit::UnsetMeta(v1::UnsetMeta { key, contexts, only_temporary: which.only_temporary })))
        }
        MetaVerb::AddPrefix(affix) => add(affix, node::key::prefix),
        MetaVerb::RemovePrefix(affix) => remove(affix, node::key::prefix),
        MetaVerb::AddSuffix(affix) => add(affix, node::key::suffix),
        MetaVerb::RemoveSuffix(affix) => remove(affix, node::key::suffix),
    }
}

fn add<H: Args>(AddAffix { affix, temporary }: AddAffix<H>, key: AffixKey) -> Outcome<Wanted<H>> {
    set(affix.change, &key(affix.priority, &affix.text), true, &temporary)
}

fn remove<H: Args>(RemoveAffix { affix, which }: RemoveAffix<H>, key: AffixKey) -> Outcome<Wanted<H>> {
    unset(affix.change, key(affix.priority, &affix.text), which)
}

fn set<H: Args>(change: Change<H>, key: &str, value: bool, temporary: &Temporary) -> Outcome<Wanted<H>> {
    let expiry = expiry(&temporary.until, time::now())?;
    let raw = v1::PermissionNode { key: key.to_owned(), value, contexts: contexts(&change.contexts)?, expiry };
    let node = Node::try_from(&raw).map_err(|mistakes| {
        let mistakes: Vec<String> = mistakes.into_iter().map(|mistake| mistake.problem).collect();
        Failure::usage(format!("{key:?} cannot be set: {}", mistakes.join("; ")))
    })?;
    let temporary = match temporary.if_exists {
        None => v1::TemporaryAddBehaviour::Unspecified,
        Some(IfExistsArg::Deny) => v1::TemporaryAddBehaviour::Deny,
        Some(IfExistsArg::Replace) => v1::TemporaryAddBehaviour::Replace,
        Some(IfExistsArg::Accumulate) => v1::TemporaryAddBehaviour::Accumulate,
    };
    Ok(of(change, Edit::Set(v1::SetNode { node: Some((&node).into()), temporary: temporary.into() })))
}

fn unset<H: Args>(change: Change<H>, key: String, which: Which) -> Outcome<Wanted<H>> {
    let contexts = contexts(&change.contexts)?;
    Ok(of(change, Edit::Unset(v1::UnsetNode { key, contexts, only_temporary: which.only_temporary })))
}

fn clear<H: Args>(change: Change<H>, what: Option<ClearArg>) -> Outcome<Wanted<H>> {
    let kind = match what {
        None => v1::ClearKind::All,
        Some(ClearArg::Permissions) => v1::ClearKind::Permissions,
        Some(ClearArg::Parents) => v1::ClearKind::Parents,
        Some(ClearArg::Meta) => v1::ClearKind::Meta,
    };
    // With server=global alone: where there is no context.
    let in_contexts = !change.contexts.is_empty();
    let contexts = contexts(&change.contexts)?;
    Ok(of(change, Edit::Clear(v1::ClearNodes { contexts, in_contexts, kind: kind.into() })))
}

fn of<H: Args>(change: Change<H>, edit: Edit) -> Wanted<H> {
    Wanted { holder: change.holder, edit, expected_revision: change.at.revision }
}

/// The end of a node's time in seconds since 1970; 0: it has none.
fn expiry(until: &Until, now: i64) -> Outcome<i64> {
    match (until.lasting, until.until) {
        (Some(seconds), _) => Ok(now.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX))),
        (None, Some(moment)) if moment <= now => Err(Failure::usage("--until: that is in the past; give a moment to come")),
        (None, moment) => Ok(moment.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        verb: ChangeVerb<Name>,
    }

    #[derive(Debug, Args)]
    struct Name {
        name: String,
    }

    fn edit(line: &[&str]) -> Outcome<Edit> {
        let line = Line::try_parse_from([&["change"], line].concat()).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let wanted = wanted(line.verb)?;
        assert_eq!((wanted.holder.name.as_str(), wanted.expected_revision), ("mod", None));
        Ok(wanted.edit)
    }

    fn place(value: &str) -> v1::PermissionContext {
        v1::PermissionContext { key: "world".to_owned(), value: value.to_owned() }
    }

    #[test]
    fn verbs_become_edits() {
        let set = |key: &str, value: bool, contexts: Vec<v1::PermissionContext>| {
            let node = v1::PermissionNode { key: key.to_owned(), value, contexts, expiry: 0 };
            Edit::Set(v1::SetNode { node: Some(node), temporary: 0 })
        };
        let unset_which =
            |key: &str, only_temporary| Edit::Unset(v1::UnsetNode { key: key.to_owned(), contexts: Vec::new(), only_temporary });
        let unset = |key: &str| unset_which(key, false);
        let b_a = ["--context", "world=b", "--context", "world=a", "--context", "world=b"];
        let clear = |kind: v1::ClearKind, in_contexts: bool, contexts: Vec<v1::PermissionContext>| {
            Edit::Clear(v1::ClearNodes { contexts, in_contexts, kind: kind.into() })
        };
        for (line, expected) in [
            (vec!["set", "mod", "a.b"], set("a.b", true, Vec::new())),
            ([&["set", "mod", "a.b", "false"], &b_a[..]].concat(), set("a.b", false, vec![place("a"), place("b")])),
            (vec!["parent", "add", "mod", "Helper"], set("group.helper", true, Vec::new())),
            (vec!["parent", "remove", "mod", "Helper"], unset("group.helper")),
            (vec!["meta", "add-prefix", "mod", "-5", "a.b"], set(r"prefix.-5.a\.b", true, Vec::new())),
            (vec!["meta", "remove-suffix", "mod", "5", "a.b"], unset(r"suffix.5.a\.b")),
            (vec!["unset", "mod", "x"], unset("x")),
            (vec!["unset", "mod", "x", "--temporary"], unset_which("x", true)),
            (vec!["parent", "remove", "mod", "Helper", "--temporary"], unset_which("group.helper", true)),
            (vec!["clear", "mod"], clear(v1::ClearKind::All, false, Vec::new())),
            (vec!["clear", "mod", "meta", "--context", "world=a"], clear(v1::ClearKind::Meta, true, vec![place("a")])),
            (vec!["clear", "mod", "--context", "server=global"], clear(v1::ClearKind::All, true, Vec::new())),
        ] {
            assert_eq!(edit(&line).unwrap(), expected, "{line:?}");
        }
    }

    #[test]
    fn times_end() {
        let until = |lasting: Option<u64>, until: Option<i64>| expiry(&Until { lasting, until }, 1_000);
        assert_eq!(until(None, None).unwrap(), 0);
        assert_eq!(until(Some(60), None).unwrap(), 1_060);
        assert_eq!(until(Some(u64::MAX), None).unwrap(), i64::MAX);
        assert_eq!(until(None, Some(1_001)).unwrap(), 1_001);
        assert_eq!(until(None, Some(1_000)).unwrap_err().code, 2);
    }

    #[test]
    fn what_is_no_node_is_not_sent() {
        let long = "a".repeat(moonbridge_permissions::node::MAX_KEY);
        let failure = edit(&["meta", "add-prefix", "mod", "1", &long]).unwrap_err();
        assert!(failure.code == 2 && failure.message.contains("cannot be set"), "{failure}");
    }
}
