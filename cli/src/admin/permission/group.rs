//! `moonbridge permission group`.

use moonbridge_permissions::Group;
use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_edit::Edit;
use serde_json::{Value, json};

use super::super::{Session, text_or_null};
use super::{Holder, at, change, parsed, words};
use crate::args::permission::GroupVerb;
use crate::control::{PAGE, pages, refused};
use crate::failure::{Failure, Outcome};
use crate::output::Listing;
use crate::time;

const COLUMNS: &[&str] = &["name", "weight", "display_name", "revision"];
const LIST: &[&str] = &["name", "weight", "display_name", "parents", "nodes", "revision"];
const MEMBERS: &[&str] = &["kind", "name", "uuid", "contexts", "expiry"];

/// Runs a verb.
pub(super) async fn run(session: Session, verb: GroupVerb) -> Outcome {
    match verb {
        GroupVerb::List => list(session).await,
        GroupVerb::Create { group } => create(session, group.name).await,
        GroupVerb::Delete { group, at } => delete(session, group.name, at.revision).await,
        GroupVerb::Info { group } => info(session, group.name).await,
        GroupVerb::Change(verb) => {
            let wanted = change::wanted(verb)?;
            edit(session, wanted.holder.name, wanted.edit, wanted.expected_revision).await
        }
        GroupVerb::Weight { group, weight, at } => edit(session, group.name, Edit::Weight(weight), at.revision).await,
        GroupVerb::DisplayName { group, text, at } => edit(session, group.name, Edit::DisplayName(text), at.revision).await,
        GroupVerb::Members { group } => members(session, group.name).await,
    }
}

async fn list(session: Session) -> Outcome {
    let groups = all(&session).await?;
    let mut listing = Listing::new(LIST);
    for state in groups {
        let group = state.group.unwrap_or_default();
        let [name, weight, display_name] = facts(&group);
        let parents: Vec<String> = group.nodes.iter().filter_map(parent).collect();
        listing.push([name, weight, display_name, json!(parents), json!(group.nodes.len()), json!(state.revision)]);
    }
    listing.print(session.output, "no groups; add one with `moonbridge permission group create NAME`")
}

async fn create(mut session: Session, name: String) -> Outcome {
    let state = session.permissions.create_group(v1::CreateGroupRequest { name: name.clone() }).await.map_err(refused)?.into_inner();
    let revision = state.revision;
    shown(state).done(session.output, &format!("group {name} is there, {}", at(revision)))
}

async fn delete(mut session: Session, name: String, expected_revision: Option<u64>) -> Outcome {
    let request = v1::DeleteGroupRequest { name: name.clone(), expected_revision };
    session.permissions.delete_group(request).await.map_err(refused)?;
    let mut thing = Listing::new(&["name", "removed"]);
    thing.push([json!(name), json!(true)]);
    session.done(&format!("group {name} is removed"), &thing)
}

async fn info(mut session: Session, name: String) -> Outcome {
    let state = session.permissions.get_group(v1::GetGroupRequest { name }).await.map_err(refused)?.into_inner();
    shown(state).print(session.output, "no nodes")
}

async fn edit(mut session: Session, name: String, edit: Edit, expected_revision: Option<u64>) -> Outcome {
    let edits = vec![v1::PermissionEdit { edit: Some(edit.clone()) }];
    let request = v1::ChangeGroupRequest { name: name.clone(), edits, expected_revision };
    let state = session.permissions.change_group(request).await.map_err(refused)?.into_inner();
    let revision = state.revision;
    let group = shown(state);
    group.done(session.output, &format!("{name}: {}, {}", words::edited(&edit, &group.nodes), at(revision)))
}

/// Who has the group as its own parent; one row for each such node.
async fn members(mut session: Session, group: String) -> Outcome {
    let state = session.permissions.get_group(v1::GetGroupRequest { name: group.clone() }).await.map_err(refused)?.into_inner();
    let name = state.group.unwrap_or_default().name;
    let groups = all(&session).await?;
    let permissions = session.permissions.clone();
    let users = pages(async |page_token| {
        let request = v1::ListUsersRequest { page_size: PAGE, page_token, group: group.clone() };
        let page = permissions.clone().list_users(request).await?.into_inner();
        Ok((page.users, page.next_page_token))
    })
    .await?;
    let mut listing = Listing::new(MEMBERS);
    let is_member = |node: &&v1::PermissionNode| parent(node).as_ref() == Some(&name);
    for group in groups.into_iter().filter_map(|state| state.group) {
        for node in group.nodes.iter().filter(is_member) {
            listing.push([json!("group"), json!(group.name), Value::Null, words::pairs(&node.contexts), words::ends(node)]);
        }
    }
    for user in users.into_iter().filter_map(|state| state.user) {
        for node in user.nodes.iter().filter(is_member) {
            let name = text_or_null(user.username.as_str());
            listing.push([json!("user"), name, json!(user.uuid), words::pairs(&node.contexts), words::ends(node)]);
        }
    }
    let everybody = name == moonbridge_permissions::DEFAULT_GROUP;
    listing.print(session.output, if everybody { "everybody has it; nobody has it as a node of its own" } else { "nobody" })
}

async fn all(session: &Session) -> Result<Vec<v1::PermissionGroupState>, Failure> {
    pages(async |page_token| {
        let request = v1::ListGroupsRequest { page_size: PAGE, page_token };
        let page = session.permissions.clone().list_groups(request).await?.into_inner();
        Ok((page.groups, page.next_page_token))
    })
    .await
}

/// The group that a node inherits.
fn parent(node: &v1::PermissionNode) -> Option<String> {
    parsed(node)?.parent().map(ToString::to_string)
}

fn shown(state: v1::PermissionGroupState) -> Holder {
    let group = state.group.unwrap_or_default();
    let [name, weight, display_name] = facts(&group);
    let mut head = Listing::new(COLUMNS);
    head.push([name, weight, display_name, json!(state.revision)]);
    Holder { head, nodes: group.nodes }
}

/// Name, weight and display name.
fn facts(raw: &v1::PermissionGroup) -> [Value; 3] {
    let now = time::now();
    let group = Group::try_from(raw).ok();
    let weight = group.as_ref().and_then(|group| group.weight(now));
    let display_name = group.as_ref().and_then(|group| group.display_name(now));
    [json!(raw.name), json!(weight), json!(display_name)]
}
