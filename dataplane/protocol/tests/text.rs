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
        let again = Text::from_json(&text.to_json()).expect("JSON");
        // With many events it has none any more, but says the same.
        prop_assert_eq!(again.to_legacy(), text.to_legacy());
        prop_assert_eq!(&Text::from_json(&again.to_json()).expect("JSON"), &again);
    }

    #[test]
    fn events_there_and_back(pieces in prop::collection::vec(("(§[0-9a-fk-or])?[a-z é😀]{0,5}", 0..5u8, "[a-z/ §\"é😀]{0,9}", "(§[0-9a-fk-or]|[a-zé😀\n]){0,9}"), 0..20)) {
        let mut text = Text::default();
        for (piece, event, line, shown) in &pieces {
            let piece = Text::legacy(piece);
            text = text.append(match event {
                0 => piece,
                1 => piece.click_run(line),
                2 => piece.click_suggest(line),
                3 => piece.hover(Text::legacy(shown)),
                _ => piece.click_open(&format!("https://{line}")).hover(Text::legacy(shown)),
            });
        }
        prop_assert_eq!(&Text::from_json(&text.to_json()).expect("JSON"), &text);
        prop_assert_eq!(text.plain(), pieces.iter().map(|(piece, ..)| Text::legacy(piece).plain()).collect::<String>());
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
        let key = prop::sample::select(vec![
            "text",
            "translate",
            "with",
            "extra",
            "color",
            "bold",
            "italic",
            "score",
            "value",
            "selector",
            "clickEvent",
            "hoverEvent",
            "action",
        ]);
        let event = |name: &'static str, actions: &'static [&'static str], value: BoxedStrategy<Value>| {
            (prop::sample::select(actions), value, inner.clone()).prop_map(
                move |(action, value, extra)| json!({ "text": "a", name: { "action": action, "value": value }, "extra": [extra] }),
            )
        };
        let line = "(https?://|/)[a-z]{0,3}".prop_map(Value::from).boxed();
        let click = event("clickEvent", &["open_url", "run_command", "suggest_command", "open_file"], line);
        let hover = event("hoverEvent", &["show_text", "show_item", "show_achievement"], inner.clone().boxed());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            click,
            hover,
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

/// A component with one event.
fn with_event(name: &str, action: &str, value: Value) -> Value {
    json!({ "text": "a", name: { "action": action, "value": value } })
}

fn again(component: &Value) -> Value {
    serde_json::from_str(&Text::from_json(&component.to_string()).expect("JSON").to_json()).expect("JSON")
}

#[test]
fn events_that_a_server_may_send_are_kept() {
    for (name, action, value) in [
        ("clickEvent", "open_url", json!("https://example.org/?a=b")),
        ("clickEvent", "open_url", json!("HTTP://example.org")),
        ("clickEvent", "run_command", json!("/server lobby")),
        ("clickEvent", "run_command", json!("hello")),
        ("clickEvent", "suggest_command", json!("/msg ")),
        ("hoverEvent", "show_text", json!({ "text": "Go §there", "color": "red" })),
        ("hoverEvent", "show_item", json!("{id:1s,Damage:0s,tag:{display:{Name:\"§cRed\"}}}")),
        ("hoverEvent", "show_achievement", json!("achievement.openInventory")),
    ] {
        let component = with_event(name, action, value);
        let expected: Value = serde_json::from_str(&component.to_string().replace("§there", "here")).expect("JSON");
        assert_eq!(again(&component), if action == "show_text" { expected } else { component });
    }
    // The client looks at the text of what it is shown, whatever holds it.
    assert_eq!(again(&with_event("hoverEvent", "show_text", json!("hi"))), with_event("hoverEvent", "show_text", json!({ "text": "hi" })));
    assert_eq!(
        again(&with_event("hoverEvent", "show_item", json!({ "text": "{id:1s}" }))),
        with_event("hoverEvent", "show_item", json!("{id:1s}"))
    );
}

#[test]
fn other_events_are_left_out() {
    for (name, action, value) in [
        ("clickEvent", "open_file", json!("/etc/passwd")),
        ("clickEvent", "open_file", json!("https://example.org")),
        ("clickEvent", "open_url", json!("file:///etc/passwd")),
        ("clickEvent", "open_url", json!("javascript:alert(1)")),
        ("clickEvent", "open_url", json!("httpé://")),
        ("clickEvent", "open_url", json!("")),
        ("clickEvent", "run_command", json!("/a\nb")),
        ("clickEvent", "run_command", json!({ "text": "/a" })),
        ("clickEvent", "run_command", json!(5)),
        ("clickEvent", "show_text", json!("a")),
        ("clickEvent", "Run_command", json!("/a")),
        ("hoverEvent", "run_command", json!("/a")),
        ("hoverEvent", "show_text", json!("")),
        ("hoverEvent", "show_item", json!(["a"])),
        ("hoverEvent", "show_entity", json!("{}")),
    ] {
        assert_eq!(again(&with_event(name, action, value)), json!({ "text": "a" }), "{name} {action}");
    }
    for component in [json!({ "text": "a", "clickEvent": null }), json!({ "text": "a", "clickEvent": "run_command", "hoverEvent": {} })] {
        assert_eq!(again(&component), json!({ "text": "a" }));
    }
    // What is shown has no events of its own.
    let inner = json!({ "text": "b", "clickEvent": { "action": "run_command", "value": "/b" }, "hoverEvent": { "action": "show_text", "value": "c" } });
    assert_eq!(again(&with_event("hoverEvent", "show_text", inner)), with_event("hoverEvent", "show_text", json!({ "text": "b" })));
}

#[test]
fn children_inherit_events_and_may_have_their_own() {
    let run = |line: &str| json!({ "action": "run_command", "value": line });
    let text = json!({ "text": "a", "clickEvent": run("/a"), "extra": ["b", { "text": "§cc", "clickEvent": run("/c") }, { "text": "d", "color": "reset" }] });
    assert_eq!(
        again(&text),
        json!({ "text": "", "extra": [
            { "text": "ab", "clickEvent": run("/a") },
            { "text": "c", "color": "red", "clickEvent": run("/c") },
            { "text": "d", "clickEvent": run("/a") },
        ] })
    );
    assert_eq!(
        again(&json!([{ "text": "a", "clickEvent": run("/a") }, "b", { "translate": "chat.type.text", "with": ["Bob", "hi"] }])),
        json!({ "text": "ab<Bob> hi", "clickEvent": run("/a") })
    );
    assert_eq!(from(text), "ab§cc§rd", "codes have no events");
}

#[test]
fn answers_are_put_together() {
    let entry = |name: &str| Text::legacy(&format!("§a{name}")).click_run(&format!("/server {name}")).hover(Text::legacy("§7Go there"));
    let list = Text::legacy("Servers: ").append(entry("lobby")).append(Text::legacy(", ")).append(entry("pvp"));
    let piece = |name: &str| {
        json!({
            "text": name,
            "color": "green",
            "clickEvent": { "action": "run_command", "value": format!("/server {name}") },
            "hoverEvent": { "action": "show_text", "value": { "text": "Go there", "color": "gray" } },
        })
    };
    let expected = json!({ "text": "", "extra": [{ "text": "Servers: " }, piece("lobby"), { "text": ", " }, piece("pvp")] });
    assert_eq!(serde_json::from_str::<Value>(&list.to_json()).expect("JSON"), expected);
    assert_eq!((list.plain(), list.to_legacy()), ("Servers: lobby, pvp".to_owned(), "Servers: §alobby§r, §apvp".to_owned()));

    assert_eq!(Text::legacy("a").append(Text::legacy("b")), Text::legacy("ab"), "neighbours of one style are one piece");
    assert_eq!(entry("a").click_suggest("/b").click_run("/server a"), entry("a"), "the last one counts");
    assert_eq!(Text::legacy("a").click_open("ftp://example.org"), Text::legacy("a"));
    assert_eq!(Text::default().click_run("/a").hover(Text::legacy("b")), Text::default());
    let full = Text::legacy(&"a".repeat(MAX_BYTES));
    assert_eq!(full.clone().append(Text::legacy("b")), full);
    let many = Text::legacy(&"§aa§bb".repeat(MAX_NODES));
    assert_eq!(many.clone().append(Text::legacy("§lc")), many);
}

#[test]
fn what_events_say_is_bounded() {
    // Shared by many pieces, it would be written with each.
    let long = with_event("clickEvent", "run_command", json!("x".repeat(1_000)));
    assert_eq!(again(&long), long);
    let mut shared = long.clone();
    shared["extra"] = (0..100).map(|number| json!({ "text": "b", "bold": number % 2 == 0 })).collect();
    let text = Text::from_json(&shared.to_string()).expect("JSON");
    assert!(text.to_json().len() < 10_000, "without events");
    assert_eq!(text.plain().len(), 101);

    for name in ["run_command", "suggest_command"] {
        assert_eq!(again(&with_event("clickEvent", name, json!("x".repeat(MAX_BYTES + 1)))), json!({ "text": "a" }));
    }
    assert_eq!(again(&with_event("hoverEvent", "show_item", json!("x".repeat(MAX_BYTES + 1)))), json!({ "text": "a" }));
    // All texts together have no more components than one may have, and lie no deeper.
    let shown: Vec<Value> = (0..200).map(|number| json!({ "text": "x", "bold": number % 2 == 0 })).collect();
    let pieces: Vec<Value> = (0..200).map(|_| with_event("hoverEvent", "show_text", json!(shown))).collect();
    let text = Text::from_json(&json!(pieces).to_string()).expect("JSON");
    assert!(text.plain().len() < 10 && text.to_json().len() <= MAX_JSON);
    let mut deep = json!("end");
    for level in 0..40 {
        deep = json!({ "text": level.to_string(), "extra": [{ "text": "", "hoverEvent": { "action": "show_text", "value": "x" } }, deep] });
    }
    let deep = with_event("hoverEvent", "show_text", deep);
    let shown: String = (40 - (MAX_DEPTH - 1)..40).rev().map(|level| level.to_string()).collect();
    assert_eq!(again(&deep), with_event("hoverEvent", "show_text", json!({ "text": shown })), "it lies one deeper than the piece");
}

#[test]
fn a_text_that_is_too_long_loses_its_events_first() {
    let text = Text::legacy(&"a".repeat(30_000)).click_run(&"b".repeat(5_000));
    let json = text.to_json();
    assert_eq!(Text::from_json(&json).expect("JSON"), Text::legacy(&"a".repeat(30_000)));
    let text = Text::legacy(&"\"".repeat(30_000)).click_run("/a");
    let json = text.to_json();
    assert!(json.len() <= MAX_JSON && json.len() > MAX_JSON / 4 && !json.contains("clickEvent"));
}
