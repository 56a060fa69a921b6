//! Text with `§` codes and as JSON components.

use moonbridge_protocol::text::{MAX_BYTES, MAX_DEPTH, MAX_JSON, MAX_NODES, Text};
use proptest::prelude::*;
use serde_json::{Value, json};

fn from(json: Value) -> String {
    Text::from_json(&json.to_string()).expect("JSON").to_legacy()
}

proptest! {
    #[test]
    fn codes_there_and_back(text in "(§[0-9a-fk-orA-FK-OR]|[a-z \"\\\\é語😀\n]){0,60}") {
        let text = Text::legacy(&text);
        prop_assert_eq!(&Text::legacy(&text.to_legacy()), &text);
        prop_assert_eq!(&Text::from_json(&text.to_json()).expect("JSON"), &text);
        prop_assert!(!text.plain().contains('§'));
        prop_assert_eq!(text.to_string(), text.plain());
    }

    #[test]
    fn anything_there_and_back(text in any::<String>()) {
        let text = Text::legacy(&text);
        prop_assert_eq!(&Text::legacy(&text.to_legacy()), &text);
        prop_assert_eq!(&Text::from_json(&text.to_json()).expect("JSON"), &text);
        prop_assert!(text.plain().chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn any_json_is_a_bounded_text(value in any_json()) {
        let text = Text::from_json(&value.to_string()).expect("JSON");
        prop_assert!(text.plain().len() <= MAX_BYTES);
        prop_assert_eq!(&Text::from_json(&text.to_json()).expect("JSON"), &text);
    }
}

/// JSON that is a component, more or less.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a§4l%s]{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        let key = prop::sample::select(vec!["text", "translate", "with", "extra", "color", "bold", "italic", "score", "value", "selector"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

#[test]
fn codes_become_components() {
    let json = |text: &str| serde_json::from_str::<Value>(&Text::legacy(text).to_json()).expect("JSON");
    assert_eq!(json(""), json!({ "text": "" }));
    assert_eq!(json("hi"), json!({ "text": "hi" }));
    assert_eq!(json("§4§lhi"), json!({ "text": "hi", "color": "dark_red", "bold": true }));
    assert_eq!(
        json("a§Cb§kc§rd"),
        json!({ "text": "", "extra": [
            { "text": "a" },
            { "text": "b", "color": "red" },
            { "text": "c", "color": "red", "obfuscated": true },
            { "text": "d" },
        ] })
    );
    // A colour ends the formats before it; unknown codes and a last sign alone show nothing.
    assert_eq!(json("§l§fa"), json!({ "text": "a", "color": "white" }));
    assert_eq!(json("§zab§"), json!({ "text": "ab" }));
}

#[test]
fn components_become_codes() {
    assert_eq!(from(json!("hi")), "hi");
    assert_eq!(from(json!(5)), "5");
    assert_eq!(from(json!(true)), "true");
    assert_eq!(from(json!(null)), "");
    assert_eq!(
        from(json!({ "text": "a", "color": "red", "extra": ["b", { "text": "c", "color": "blue" }, { "text": "d", "bold": true }] })),
        "§cab§9c§c§ld"
    );
    // The first of an array is the parent of the others.
    assert_eq!(from(json!([{ "text": "a", "italic": true }, "b", { "text": "c", "italic": false }])), "§oab§rc");
    assert_eq!(from(json!({ "text": "§cred §lbold" })), "§cred §lbold");
    assert_eq!(from(json!({ "text": "a", "color": "no such", "underlined": "true" })), "§na");
    assert_eq!(from(json!({ "text": "a", "color": "red", "extra": [{ "text": "b", "color": "reset" }] })), "§ca§rb");
    assert_eq!(from(json!({ "score": { "name": "Bob", "objective": "kills", "value": "3" } })), "3");
    assert_eq!(from(json!({ "selector": "@p" })), "@p");
    assert_eq!(from(json!({ "text": 4, "extra": { "text": "x" } })), "4x");
}

#[test]
fn translations_take_their_arguments() {
    assert_eq!(from(json!({ "translate": "chat.type.text", "with": ["Bob", { "text": "hi", "color": "green" }] })), "<Bob> §ahi");
    assert_eq!(
        from(json!({ "translate": "chat.type.text", "with": [{ "text": "Bob", "clickEvent": { "action": "run_command" } }] })),
        "<Bob> "
    );
    assert_eq!(from(json!({ "translate": "disconnect.spam", "color": "red" })), "§cKicked for spamming");
    assert_eq!(from(json!({ "translate": "mod.unknown", "with": ["a", 2] })), "mod.unknown: a, 2");
    assert_eq!(from(json!({ "translate": "mod.unknown" })), "mod.unknown");
}

#[test]
fn what_is_not_json_is_an_error() {
    for text in ["", "{", "{'text':'a'}", "hello", "[1,", "{\"text\":\"a\"} b"] {
        Text::from_json(text).expect_err(text);
    }
}

#[test]
fn control_characters_never_reach_a_terminal() {
    assert_eq!(Text::legacy("a\x1b[31mb\0\r\u{9b}c\nd").plain(), "a[31mbc\nd");
    assert_eq!(from(json!("\u{1b}]0;title\u{7}")), "]0;title");
}

#[test]
fn everything_is_bounded() {
    let mut deep = json!("end");
    for level in 0..60 {
        deep = json!({ "text": level.to_string(), "extra": [deep] });
    }
    let text = Text::from_json(&deep.to_string()).expect("JSON");
    let expected: String = (60 - MAX_DEPTH..60).rev().map(|level| level.to_string()).collect();
    assert_eq!(text.plain(), expected, "the outer 32");

    let wide: Vec<Value> = (0..10_000).map(|number| json!({ "text": "x", "bold": number % 2 == 0 })).collect();
    let text = Text::from_json(&json!(wide).to_string()).expect("JSON");
    assert_eq!(text.plain().len(), MAX_NODES - 1, "the array itself is one");

    let text = Text::legacy(&"語".repeat(MAX_BYTES));
    assert_eq!(text.plain().len(), MAX_BYTES / 3 * 3);
    let text = Text::legacy(&"§aa§bb".repeat(MAX_BYTES));
    assert_eq!(text.plain().len(), MAX_NODES - 1);
    assert!(Text::from_json(&"[".repeat(100_000)).is_err(), "no stack is lost");
}

#[test]
fn json_is_cut_to_what_the_game_takes() {
    // Quotes and backslashes take two bytes each, and so do the codes a lot more than they are.
    for text in
        ["\"".repeat(MAX_BYTES), format!("§a{0}§l{0}", "\\\"".repeat(60)).repeat(130), format!("§l§a{0}§k{0}", "é".repeat(60)).repeat(127)]
    {
        let text = Text::legacy(&text);
        let json = text.to_json();
        assert!(json.len() <= MAX_JSON && json.len() > MAX_JSON / 4, "{}", json.len());
        let shown = Text::from_json(&json).expect("JSON").plain();
        assert!(shown.len() < text.plain().len() && text.plain().starts_with(&shown));
    }
}
