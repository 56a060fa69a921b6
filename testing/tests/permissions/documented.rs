//! What docs/permissions.md shows can be typed as it stands.

use moonbridge_testing::model::stage::DOMAIN;
use moonbridge_testing::network::Net;
use moonbridge_testing::process::testing_dir;

use crate::support::{host, join};

/// The commands of the page's section of this name, as words.
fn commands(section: &str) -> Vec<Vec<String>> {
    let path = testing_dir().join("../docs/permissions.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let body = page.split(section).nth(1).unwrap_or_else(|| panic!("no section {section:?}"));
    let block = body.split("```").nth(1).expect("a block of commands");
    block.lines().filter(|line| !line.is_empty()).map(words).collect()
}

/// As a shell splits a line that has single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_can_be_typed_as_they_stand() {
    let (lobby, vip) = (host("lobby", 1).await, host("vip", 2).await);
    let net = Net::start(&[("lobby", lobby.address), ("vip", vip.address)]).await;
    let ada = join(&net.first, DOMAIN, "Ada").await;
    ada.is_on(&lobby.setup()).await;
    net.known(&["Ada"]).await;
    let all = [commands("## Restricted backends"), commands("## By example")].concat();
    assert!(all.len() > 15, "{all:?}");
    for command in all {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        let ["moonbridge", arguments @ ..] = words.as_slice() else { panic!("{command:?} is no command") };
        let ran = net.b.cli().run(arguments).await;
        // A check that is not true ends with 1, in words on stdout.
        let expected = if arguments.contains(&"moonbridge.server.arena") && arguments.contains(&"check") { 1 } else { 0 };
        assert_eq!(ran.code, expected, "{command:?}: {ran:?}");
    }
    ada.assert_well();
}
