//! Lines of chat that are commands.

use moonbridge_protocol::command::Command;
use moonbridge_protocol::play::{MAX_CHAT, put_chat_serverbound, read_chat_serverbound};
use moonbridge_protocol::version::Version;
use moonbridge_protocol::wire::{WireError, put_string};
use proptest::prelude::*;

fn words(line: &str) -> Vec<&str> {
    Command::of(line).expect("a command").words().collect()
}

#[test]
fn a_command_begins_with_a_slash_and_a_name() {
    for (line, command) in [
        ("/server", Some(("server", None))),
        ("/server ", Some(("server", Some("")))),
        ("/server lobby", Some(("server", Some("lobby")))),
        ("/alert  two  spaces ", Some(("alert", Some(" two  spaces ")))),
        ("//wand", Some(("/wand", None))),
        ("/moonbridge:server\tx", Some(("moonbridge:server\tx", None))),
        ("/全体消息 你好", Some(("全体消息", Some("你好")))),
        ("/-x --help", Some(("-x", Some("--help")))),
        ("", None),
        ("/", None),
        ("/ server", None),
        (" /server", None),
        ("server", None),
        ("／server", None),
    ] {
        assert_eq!(Command::of(line).map(|command| (command.root, command.rest)), command, "{line:?}");
    }
}

#[test]
fn words_stand_between_single_spaces() {
    assert_eq!(words("/send"), [""; 0]);
    assert_eq!(words("/send "), [""]);
    assert_eq!(words("/send Bob lobby"), ["Bob", "lobby"]);
    assert_eq!(words("/send  Bob "), ["", "Bob", ""]);
    assert_eq!(Command::of("/send  Bob  lobby ").expect("a command").arguments().collect::<Vec<_>>(), ["Bob", "lobby"]);
    assert_eq!(Command::of("/send Bob lo").expect("a command").words().next_back(), Some("lo"), "what is being typed");
}

#[test]
fn names_are_one_in_any_case() {
    let is = |line: &str, name: &str| Command::of(line).expect("a command").is(name);
    assert!(is("/SerVer lobby", "server") && is("/server", "Server") && is("/ÉTAT", "état"));
    assert!(!is("/server", "serve") && !is("/serve", "server") && !is("/server:", "server"));
}

#[test]
fn a_line_of_chat_is_as_long_as_a_string_can_be() {
    for (line, good) in [
        ("a".repeat(MAX_CHAT), true),
        ("語".repeat(MAX_CHAT), true),
        ("a".repeat(MAX_CHAT + 1), false),
        ("😀".repeat(MAX_CHAT / 2 + 1), false),
    ] {
        let mut payload = Vec::new();
        put_string(&mut payload, &line);
        let read = read_chat_serverbound(&payload);
        if good { assert_eq!(read, Ok(&line[..])) } else { assert!(matches!(read, Err(WireError::BadLength { .. }))) }
    }
    assert_eq!(MAX_CHAT, 32_767);
}

proptest! {
    #[test]
    fn a_command_is_all_of_its_line(line in "[/ ]{0,2}[a-zA-Z/ é😀\u{202e}\u{1b}]{0,20}") {
        match Command::of(&line) {
            None => prop_assert!(!line.starts_with('/') || line.len() == 1 || line.starts_with("/ ")),
            Some(command) => {
                let rest = command.rest.map_or_else(String::new, |rest| format!(" {rest}"));
                prop_assert_eq!(format!("/{}{rest}", command.root), &line[..]);
                let again = command.words().map(|word| format!(" {word}")).collect::<String>();
                prop_assert_eq!(again, rest);
                prop_assert!(command.is(&command.root.to_uppercase()) || !command.root.is_ascii());
            }
        }
        let mut out = Vec::new();
        put_chat_serverbound(&mut out, Version::newest(), &line);
        prop_assert_eq!(read_chat_serverbound(&out[2..]), Ok(&line[..]));
    }
}
