//! Keys of nodes: what they say, how they are written, and that none is too much.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moonbridge_permissions::node::{MAX_KEY, MAX_PERMISSION, key};
use moonbridge_permissions::{Budget, Contexts, Exhausted, Kind, Node, NodeError, duration};
use proptest::prelude::*;

fn node(key: &str) -> Node {
    parsed(key).unwrap_or_else(|error| panic!("{key:?}: {error}"))
}

fn parsed(key: &str) -> Result<Node, NodeError> {
    Node::new(key, true, Contexts::none(), None)
}

/// What a permission stands for beside itself.
fn expanded(key: &str) -> Vec<String> {
    match node(key).kind() {
        Kind::Permission(all) => all[1..].iter().map(|key| key.to_string()).collect(),
        other => panic!("{key}: {other:?}"),
    }
}

/// Kind and key, shortly.
fn told(key: &str) -> String {
    let node = node(key);
    let kind = match node.kind() {
        Kind::Inheritance(group) => format!("group [{group}]"),
        Kind::Prefix(priority, text) => format!("prefix {priority} [{text}]"),
        Kind::Suffix(priority, text) => format!("suffix {priority} [{text}]"),
        Kind::Meta(key, value) => format!("meta [{key}] [{value}]"),
        Kind::Weight(weight) => format!("weight {weight}"),
        Kind::DisplayName(name) => format!("name [{name}]"),
        Kind::Regex(_) => "regex".to_owned(),
        Kind::Permission(_) => "permission".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{kind} {}", node.key())
}

#[test]
fn kinds_follow_from_keys() {
    for (key, expected) in [
        ("group.mod", "group [mod] group.mod"),
        ("GROUP.Mod", "group [mod] group.mod"),
        ("group.a.b", "group [a.b] group.a.b"),
        ("group.größe", "group [größe] group.größe"),
        ("prefix.50.&a[Mod] ", "prefix 50 [&a[Mod] ] prefix.50.&a[Mod] "),
        ("Prefix.-5.x", "prefix -5 [x] prefix.-5.x"),
        ("prefix.1.", "prefix 1 [] prefix.1."),
        (r"prefix.1.a\.b", r"prefix 1 [a.b] prefix.1.a\.b"),
        (r"suffix.007.a.b", r"suffix 7 [a.b] suffix.7.a\.b"),
        (r"suffix.1.a\/b\-c\$d", "suffix 1 [a/b-c$d] suffix.1.a/b-c$d"),
        ("prefix.high.x", "permission prefix.high.x"),
        ("prefix.100", "permission prefix.100"),
        ("prefix.99999999999.x", "permission prefix.99999999999.x"),
        ("meta.Home-Limit.5", "meta [home-limit] [5] meta.home-limit.5"),
        (r"meta.a\.b.C\.d", r"meta [a.b] [C.d] meta.a\.b.C\.d"),
        ("meta.k.", "meta [k] [] meta.k."),
        ("meta.k", "permission meta.k"),
        ("weight.10", "weight 10 weight.10"),
        ("weight.-10", "weight -10 weight.-10"),
        ("weight.ten", "permission weight.ten"),
        ("displayname.The Mods", "name [The Mods] displayname.The Mods"),
        (r"r=a\.\d+", r"regex r=a\.\d+"),
        ("R=a", "regex r=a"),
        ("a.b with spaces", "permission a.b with spaces"),
        ("A.B", "permission A.B"),
        ("groups.mod", "permission groups.mod"),
        ("é", "permission é"),
        ("r", "permission r"),
    ] {
        assert_eq!(told(key), expected, "{key}");
    }
}

#[test]
fn what_is_no_node_says_why() {
    assert_eq!(parsed(""), Err(NodeError::Empty));
    assert_eq!(parsed("  "), Err(NodeError::Empty));
    assert_eq!(parsed("group."), Err(NodeError::GroupName(String::new())));
    assert_eq!(parsed("group.two words"), Err(NodeError::GroupName("two words".to_owned())));
    assert_eq!(parsed("meta..v"), Err(NodeError::MetaKey(String::new())));
    assert_eq!(parsed("displayname."), Err(NodeError::DisplayName));
    assert!(parsed(&"é".repeat(MAX_PERMISSION)).is_ok());
    assert_eq!(parsed(&"é".repeat(MAX_PERMISSION + 1)), Err(NodeError::TooLong(MAX_PERMISSION + 1)));
    assert!(parsed(&format!("prefix.1.{}", "x".repeat(MAX_KEY - 9))).is_ok());
    assert_eq!(parsed(&format!("prefix.1.{}", "x".repeat(MAX_KEY - 8))), Err(NodeError::TextTooLong(MAX_KEY + 1)));
}

#[test]
fn regular_expressions_match_the_whole() {
    for (pattern, yes, no) in [
        ("a|bc", vec!["a", "bc"], vec!["ab", "c", "abc", "xbc"]),
        (r"Moonbridge\.(A|B)[0-9]+", vec!["moonbridge.a1", "moonbridge.b22"], vec!["moonbridge.c1", "moonbridge.a", "moonbridge.a1."]),
        (r"\Qa.b\E.*", vec!["a.b", "a.bc"], vec!["axb"]),
        (r"\S+\.\d", vec!["ab.1", "é.2"], vec!["a b.1", "a.x", "a.٣"]),
        (r"[\d_]+\w?\W", vec!["1_2a."], vec!["a."]),
        (r"(a+)+$", vec!["a", "aaaa"], vec!["", "aab"]),
        (r"a{2,3}?", vec!["aa", "aaa"], vec!["a", "aaaa"]),
        (r"[]a]+", vec!["]a"], vec!["b"]),
        (r"[^]a]", vec!["b"], vec!["]", "a"]),
        (r"a\<b\-c", vec!["a<b-c"], vec!["ab-c"]),
        (r"[a-c&&[^b]]", vec!["a", "c"], vec!["b"]),
        (r"(?<name>x)(?:y)(?i)Z", vec!["xyz"], vec!["xy"]),
        (r"[+*?{}]+", vec!["+*?{}"], vec!["a"]),
        (r"\+\*?", vec!["+", "+*"], vec!["*"]),
        (r"ä.", vec!["äö"], vec!["a"]),
        (r"\p{L}+\.[\p{Lu}\x{31}]+", vec!["äö.a1", "日本.1"], vec!["1.a", "ä.2"]),
        (r"\P{L}{2}", vec!["12"], vec!["a1"]),
    ] {
        let node = node(&format!("r={pattern}"));
        let Kind::Regex(regex) = node.kind() else { panic!("{pattern}") };
        for text in yes {
            assert!(regex.is_match(text), "{pattern} matches {text:?}");
        }
        for text in no {
            assert!(!regex.is_match(text), "{pattern} does not match {text:?}");
        }
    }
}

#[test]
fn what_linear_time_cannot_do_is_refused_in_plain_words() {
    for (pattern, expected) in [
        ("", "it is empty"),
        ("a(?=b)", "look-ahead and look-behind are not supported"),
        ("(?<!a)b", "look-ahead and look-behind are not supported"),
        (r"(a)\1", "back-references are not supported"),
        (r"(?<x>a)\k<x>", "back-references are not supported"),
        ("a++b", "possessive quantifiers are not supported"),
        ("[ab]*+", "possessive quantifiers are not supported"),
        ("a{1,2}+", "possessive quantifiers are not supported"),
        ("(?>a)", "atomic groups are not supported"),
        ("(?x)a#", "the flag 'x' is not supported"),
        ("a**", "a quantifier follows a quantifier"),
        ("a+?+", "a quantifier follows a quantifier"),
        ("a)(b", "a bracket closes that has not been opened"),
        (r"a\", "it ends with a backslash"),
        ("[", "unclosed character class"),
        ("(a", "unclosed group"),
        ("*a", "repetition operator missing expression"),
        ("((a{1000}){1000}){1000}", "it is too large"),
        (r"\p{Nonsense}", "Unicode property not found"),
    ] {
        match parsed(&format!("r={pattern}")) {
            Err(NodeError::Regex { problem, .. }) => assert_eq!(problem, expected, "{pattern}"),
            other => panic!("{pattern}: {other:?}"),
        }
    }
    assert!(matches!(parsed(&format!("r={}a{}", "(".repeat(60), ")".repeat(60))), Err(NodeError::Regex { .. })));
    assert!(matches!(parsed(&format!("r={}", "a".repeat(MAX_KEY))), Err(NodeError::TextTooLong(_))));
}

#[test]
fn a_catastrophic_expression_takes_linear_time() {
    let node = node(r"r=(a+)+(a+)+(a+)+b");
    let Kind::Regex(regex) = node.kind() else { panic!() };
    let begun = Instant::now();
    assert!(!regex.is_match(&"a".repeat(100_000)));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn shorthand_stands_for_lists_and_ranges() {
    for (key, expected) in [
        ("a.b", vec![]),
        ("a.{b,c}", vec!["a.b", "a.c"]),
        ("a.{b|c,d}", vec!["a.b", "a.c", "a.d"]),
        ("a.(b|c)", vec!["a.b", "a.c"]),
        ("a.{1-4}", vec!["a.1", "a.2", "a.3", "a.4"]),
        ("a.{3-1}", vec!["a.1", "a.2", "a.3"]),
        ("{A-C}.x", vec!["a.x", "b.x", "c.x"]),
        ("{a,b}.{1-2}", vec!["a.1", "a.2", "b.1", "b.2"]),
        ("a.{b,}", vec!["a.b"]),
        ("a.{b}", vec!["a.b"]),
        ("a.{}", vec!["a."]),
        ("a.{,}", vec![]),
        ("a.}b{", vec![]),
        ("a.{b", vec![]),
        ("a.{B,b}", vec!["a.b"]),
        ("{a,{b,c}}", vec!["a", "b", "c"]),
        ("{{a,b}.{1-2},c}", vec!["a.1", "a.2", "b.1", "b.2", "c"]),
        ("a{b)c", vec!["abc"]),
        ("a.{1-252}", vec![]),
        ("a.{1-xy}", vec!["a.1-xy"]),
        ("{0-9}{0-9}{0-9}{1,2}", vec![]),
        ("{ä,ö}", vec!["ä", "ö"]),
    ] {
        assert_eq!(expanded(key), expected, "{key}");
    }
    assert_eq!(expanded("a.{1-251}").len(), 251);
    assert_eq!(expanded("{0-9}{0-9}{0-9}").len(), 1000);
}

#[test]
fn shorthand_is_bounded_in_time_and_space() {
    for key in ["{a,b}".repeat(40), "{0-250}{0-3}".to_owned() + &"{}".repeat(94), "(".repeat(100) + &")".repeat(100), "{1-250}".repeat(28)]
    {
        let begun = Instant::now();
        assert!(expanded(&key).len() <= 1000, "{key}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{key}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_holders_shorthand_and_expressions_are_bounded_also_where_nothing_comes_of_them() {
    let expanding = |key: &str, nodes: usize| {
        let mut budget = Budget::of_holder();
        (0..nodes).find_map(|n| budget.take(&node(&format!("{key}{n}"))).err())
    };
    assert_eq!(expanding("plain", 100_000), None);
    assert_eq!(expanding("{a,b}.{1-4}", 4_000), None);
    for key in ["{1-250}", "{0-9}{0-9}{0-9}", "{0-9}{0-9}{0-9}{0-9}", "{{a,A}{a,A}{a,A}{a,A}{a,A}{a,A}{a,A}{a,A}}{}{}{}{}"] {
        assert!(matches!(expanding(key, 201), Some(Exhausted::Expansions(50_000))), "{key}");
    }
    let mut budget = Budget::of_holder();
    for n in 0..1_000 {
        // The same in other places is the same.
        let elsewhere = Contexts::of([("world", "lobby")]).expect("contexts");
        assert_eq!(budget.take(&node(&format!("r={n}"))), Ok(()));
        assert_eq!(budget.take(&Node::new(&format!("R={n}"), false, elsewhere, None).expect("a node")), Ok(()));
    }
    assert_eq!(budget.take(&node("r=x")), Err(Exhausted::Regexes(1_000)));
    assert_eq!((budget.take(&node("r=5")), budget.take(&node("a.{b,c}"))), (Ok(()), Ok(())), "there is room for others");
    // A large one counts for eight.
    let mut budget = Budget::of_holder();
    let taken = (0..1_000).take_while(|n| budget.take(&node(&format!("r={n}{}", "a".repeat(900)))).is_ok()).count();
    assert_eq!(taken, 125);
}

#[test]
fn an_expression_that_many_have_is_compiled_once() {
    let (first, second) = (node("r=many.have.(this|that)[0-9]+"), node("R=many.have.(this|that)[0-9]+"));
    let (Kind::Regex(a), Kind::Regex(b)) = (first.kind(), second.kind()) else { panic!() };
    assert!(Arc::ptr_eq(a, b));
}

#[test]
fn durations() {
    for (text, seconds) in [
        ("30m", 1800),
        ("1d12h", 129_600),
        ("2w", 1_209_600),
        ("1mo", 2_629_746),
        ("1y", 31_556_952),
        ("1h 5s", 3605),
        ("1 day, 2 hours", 93_600),
        ("1M", 60),
        ("100y", 3_155_695_200),
    ] {
        assert_eq!(duration::parse(text), Ok(seconds), "{text}");
    }
    for text in ["", "5", "0s", "1x", "d", "1d1d", "101y", "-1d", "1.5h", "99999999999999999999d", "99999999999999999y", "1d!"] {
        assert!(duration::parse(text).is_err(), "{text}");
    }
    assert_eq!(duration::show(129_600), "1d12h");
    assert_eq!(duration::show(0), "0s");
}

/// Text in which what is escaped is likely.
fn text() -> impl Strategy<Value = String> {
    r"[a-zA-Zäß .\\/$\-]{0,12}"
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(priority: i32, text in text(), meta in text()) {
        let prefix = node(&key::prefix(priority, &text));
        prop_assert!(matches!(prefix.kind(), Kind::Prefix(p, t) if *p == priority && **t == *text), "{:?}", prefix);
        let suffix = node(&key::suffix(priority, &text));
        prop_assert!(matches!(suffix.kind(), Kind::Suffix(p, t) if *p == priority && **t == *text), "{:?}", suffix);
        // A backslash at the end would escape the dot.
        if !meta.is_empty() && !meta.ends_with('\\') {
            let node = node(&key::meta(&meta, &text));
            prop_assert!(matches!(node.kind(), Kind::Meta(k, v) if **k == *meta.to_lowercase() && **v == *text), "{:?}", node);
        }
        prop_assert_eq!(told(&key::weight(priority)), format!("weight {priority} weight.{priority}"));
    }

    #[test]
    fn a_key_is_spelt_one_way(start in "(prefix.5.|suffix.-1.|meta.|meta.k.|group.|Weight.|displayname.|r=|R=|)", rest in text()) {
        if let Ok(first) = parsed(&(start + &rest)) {
            let again = node(first.key());
            prop_assert_eq!(&again, &first);
            prop_assert_eq!(told(again.key()), told(first.key()));
        }
    }

    #[test]
    fn no_string_is_too_much(any in any::<String>(), start in "(prefix.|suffix.|meta.|group.|weight.|displayname.|r=|a\\.)", bits in "[({})|,a-d0-9\\-*.?+\\[\\]^\\\\\\$]{0,60}") {
        for key in [any.clone(), format!("{start}{any}"), format!("{start}{bits}")] {
            if let Ok(node) = parsed(&key)
                && let Kind::Permission(all) = node.kind()
            {
                prop_assert!(all.len() <= 1001);
            }
        }
    }

    #[test]
    fn a_duration_is_read_as_shown(seconds in 1u64..3_155_695_200) {
        prop_assert_eq!(duration::parse(&duration::show(seconds)), Ok(seconds));
    }

    #[test]
    fn no_duration_is_too_much(text: String, digits in "[0-9]{0,25}[a-z]{0,3}[0-9]{0,25}[a-z]{0,3}") {
        for text in [text, digits] {
            if let Ok(seconds) = duration::parse(&text) {
                prop_assert!(seconds > 0);
            }
        }
    }
}
