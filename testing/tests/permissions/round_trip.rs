//! What was imported and exported again gives the same answers as the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use moonbridge_permissions::format::{Imported, luckperms};
use moonbridge_permissions::{Answer, Contexts, Groups, Kind, Settings, Tracks, User, resolve};
use moonbridge_proto::v1::{self, PermissionAnswer};
use moonbridge_testing::network::{Plane, folder};
use moonbridge_testing::process::testing_dir;

use crate::support::{Client, now};

/// What one user has in one set of contexts.
#[derive(Debug, Clone, PartialEq)]
struct Has {
    answers: Vec<PermissionAnswer>,
    primary_group: String,
    prefix: String,
    suffix: String,
    meta: Vec<(String, String)>,
}

/// Done when: for every user and every permission in the file, and what they lead to.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_an_import_answers_as_the_file_does() {
    let file = testing_dir().join("vectors/permissions/luckperms-export.json");
    let before = read(&file);
    let (permissions, places) = (permissions(&before), places(&before));
    let users: Vec<_> = before.users.iter().map(|user| user.uuid.to_string()).collect();
    assert!(users.len() >= 40 && permissions.len() >= 100 && places.len() >= 3, "{} {} {}", users.len(), permissions.len(), places.len());

    let folder = folder();
    let first = fresh(&folder.path().join("first")).await;
    let second = fresh(&folder.path().join("second")).await;
    let (plain, gzipped) = (folder.path().join("out.json"), folder.path().join("out.json.gz"));
    first.cli().ok(&["permission", "import", text(&file)]).await;
    first.cli().ok(&["permission", "export", text(&plain)]).await;
    first.cli().ok(&["permission", "export", text(&gzipped)]).await;
    second.cli().ok(&["permission", "import", text(&gzipped)]).await;

    // The file itself, as the pure crate reads it: nothing of the way over gRPC and the store.
    let expected = Model::of(&before);
    let exported = Model::of(&read(&plain));
    let (first, second) = (Client::at(&first).await, Client::at(&second).await);
    for user in &users {
        for place in &places {
            let expected = expected.has(user, place, &permissions);
            let [imported, again] = [has(&first, user, place, &permissions).await, has(&second, user, place, &permissions).await];
            same(&expected, &imported, &permissions, &format!("imported, {user} in {place:?}"));
            same(&expected, &again, &permissions, &format!("imported again, {user} in {place:?}"));
            same(&expected, &exported.has(user, place, &permissions), &permissions, &format!("the exported file, {user} in {place:?}"));
        }
    }

    assert_eq!(second.export().await, first.export().await, "record by record");
}

async fn fresh(store: &Path) -> Plane {
    Plane::replica("alone", &format!("[store.embedded]\ndata_dir = {store:?}\n")).await
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn read(file: &PathBuf) -> Imported {
    let json = std::fs::File::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    luckperms::read(std::io::BufReader::new(json)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn nodes(of: &Imported) -> impl Iterator<Item = &moonbridge_permissions::Node> {
    of.users.iter().flat_map(|user| &user.nodes).chain(of.groups.iter().flat_map(|group| group.nodes()))
}

/// Every permission that a node of the file speaks of, and some near each.
fn permissions(of: &Imported) -> Vec<String> {
    let mut all = BTreeSet::from(["never.heard.of".to_owned(), "*".to_owned()]);
    for node in nodes(of) {
        match node.kind() {
            Kind::Permission(keys) => {
                for key in keys.iter() {
                    all.insert(key.to_string());
                    all.insert(format!("{key}.deeper"));
                    all.insert(key.replace('*', "any"));
                    all.extend(key.rsplit_once('.').map(|(parent, _)| parent.to_owned()));
                }
            }
            // What an expression with its alternatives left out could stand for.
            Kind::Regex(_) => all.extend([node.key().trim_start_matches("r=").replace('\\', ""), "moonbridge.transfer.lobby7".to_owned()]),
            _ => {}
        }
    }
    all.retain(|permission| !permission.is_empty());
    all.into_iter().collect()
}

/// No contexts, the proxy's, and those of every node.
fn places(of: &Imported) -> Vec<Contexts> {
    let mut all = BTreeSet::from([Contexts::none(), Settings::default().contexts(None)]);
    for node in nodes(of) {
        let mut contexts = Settings::default().contexts(None);
        for (key, value) in node.contexts().iter() {
            contexts.add(key, value).expect("a context of a node");
        }
        all.insert(contexts);
        all.insert(node.contexts().clone());
    }
    all.into_iter().collect()
}

/// What a file says, resolved here.
struct Model {
    users: Vec<User>,
    groups: Groups,
    tracks: Tracks,
}

impl Model {
    fn of(imported: &Imported) -> Model {
        let groups = imported.groups.iter().map(|group| (group.name().to_string(), Arc::new(group.clone()))).collect();
        let tracks = imported.tracks.iter().map(|track| (track.name().to_string(), Arc::new(track.clone()))).collect();
        Model { users: imported.users.clone(), groups, tracks }
    }

    fn has(&self, user: &str, place: &Contexts, permissions: &[String]) -> Has {
        let user = self.users.iter().find(|known| known.uuid.to_string() == user).expect("a user of the file");
        let resolved = resolve(user, &self.groups, &self.tracks, &Settings::default(), place, now());
        let answer = |permission: &String| match resolved.check(permission) {
            Answer::True => PermissionAnswer::True,
            Answer::False => PermissionAnswer::False,
            Answer::Undefined => PermissionAnswer::Undefined,
        };
        let mut meta: Vec<_> = resolved.all_meta().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        meta.sort();
        Has {
            answers: permissions.iter().map(answer).collect(),
            primary_group: resolved.primary_group().to_owned(),
            prefix: resolved.prefix().unwrap_or_default().to_owned(),
            suffix: resolved.suffix().unwrap_or_default().to_owned(),
            meta,
        }
    }
}

async fn has(client: &Client, user: &str, place: &Contexts, permissions: &[String]) -> Has {
    let contexts: Vec<_> = place.iter().map(|(key, value)| v1::PermissionContext { key: key.into(), value: value.into() }).collect();
    let mut has = None::<Has>;
    for some in permissions.chunks(1000) {
        let request =
            v1::CheckRequest { player: user.into(), permissions: some.to_vec(), contexts: contexts.clone(), exact_contexts: true };
        let checked = client.permissions.clone().check(request).await.expect("an answer").into_inner();
        let answers: Vec<_> = checked.answers().collect();
        match &mut has {
            Some(has) => has.answers.extend(answers),
            None => {
                let mut meta: Vec<_> = checked.meta.into_iter().collect();
                meta.sort();
                let v1::CheckResponse { primary_group, prefix, suffix, .. } = checked;
                has = Some(Has { answers, primary_group, prefix, suffix, meta });
            }
        }
    }
    has.expect("there are permissions")
}

#[track_caller]
fn same(expected: &Has, found: &Has, permissions: &[String], what: &str) {
    for (permission, (expected, found)) in permissions.iter().zip(expected.answers.iter().zip(&found.answers)) {
        assert_eq!(expected, found, "{what}: {permission}");
    }
    assert_eq!(expected, found, "{what}");
}
