//! YAML that readers of YAML 1.1 and 1.2 understand alike. They differ in what a bare word is (`no`, `2020-01-01`, `1:30`), so
//! every text is quoted.

use std::fmt::Write as _;

use serde::Serialize;
use serde_norway::Value;

/// A document, with a line feed at its end.
///
/// # Errors
/// The value cannot be serialised, or has a part that our output never has (a tag, a key that is no text).
pub(crate) fn to_string(value: &(impl Serialize + ?Sized)) -> Result<String, String> {
    let value = serde_norway::to_value(value).map_err(|error| error.to_string())?;
    let mut out = String::new();
    match is_block(&value) {
        true => block(&mut out, &value, 0)?,
        false => {
            scalar(&mut out, &value)?;
            out.push('\n');
        }
    }
    Ok(out)
}

/// Whether a value takes lines of its own.
fn is_block(value: &Value) -> bool {
    match value {
        Value::Sequence(items) => !items.is_empty(),
        Value::Mapping(map) => !map.is_empty(),
        _ => false,
    }
}

/// The lines of a list or an object. The first begins where the output stands: behind the indentation, or behind a dash.
fn block(out: &mut String, value: &Value, indent: usize) -> Result<(), String> {
    let begin = |out: &mut String, first: bool| {
        if !first {
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                begin(out, index == 0);
                out.push_str("- ");
                entry(out, item, indent + 2, false)?;
            }
        }
        Value::Mapping(map) => {
            for (index, (key, item)) in map.iter().enumerate() {
                begin(out, index == 0);
                key_name(out, key)?;
                out.push(':');
                entry(out, item, indent + 2, true)?;
            }
        }
        _ => scalar(out, value)?,
    }
    Ok(())
}

/// A value behind a dash or a key, with the line feed.
fn entry(out: &mut String, value: &Value, indent: usize, below: bool) -> Result<(), String> {
    match (is_block(value), below) {
        (true, true) => {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            block(out, value, indent)
        }
        (true, false) => block(out, value, indent),
        (false, _) => {
            if below {
                out.push(' ');
            }
            scalar(out, value)?;
            out.push('\n');
            Ok(())
        }
    }
}

/// Keys are our column names: bare, unless that would be a word of YAML 1.1.
fn key_name(out: &mut String, key: &Value) -> Result<(), String> {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let Value::String(key) = key else { return Err("a key that is no text".to_owned()) };
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !WORDS.contains(&key.as_str());
    if bare {
        out.push_str(key)
    } else {
        quoted(out, key)
    }
    Ok(())
}

fn scalar(out: &mut String, value: &Value) -> Result<(), String> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Never with an exponent, which 1.1 reads only in some forms.
            Some(float) if float.is_finite() => {
                let text = format!("{float}");
                let point = if text.contains('.') { "" } else { ".0" };
                let _ = write!(out, "{text}{point}");
            }
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::String(text) => quoted(out, text),
        Value::Sequence(_) => out.push_str("[]"),
        Value::Mapping(_) => out.push_str("{}"),
        Value::Tagged(_) => return Err("a tagged value".to_owned()),
    }
    Ok(())
}

/// In double quotes, with escapes for all that is no printable character in both versions.
fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        let _ = match c {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\t' => out.write_str("\\t"),
            '\r' => out.write_str("\\r"),
            ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202f}'..='\u{2065}' | '\u{206a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' => {
                out.write_char(c)
            }
            '\u{ff00}'..='\u{fffd}' => out.write_char(c),
            '\u{10000}'.. => write!(out, "\\U{:08X}", u32::from(c)),
            _ => write!(out, "\\u{:04X}", u32::from(c)),
        };
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_text_is_quoted() {
        #[derive(Serialize)]
        struct Row {
            name: &'static str,
            no: u64,
            list: Vec<serde_json::Value>,
            empty: Vec<u8>,
            ms: f64,
            drained: bool,
            note: Option<&'static str>,
        }
        let list = vec![json!("2020-01-01"), json!({ "phase": "dial", "ms": 1e-9 }), json!([1, "1:30"])];
        let row = Row { name: "no", no: u64::MAX, list, empty: vec![], ms: 84.0, drained: false, note: None };
        let expected = "- name: \"no\"\n  \"no\": 18446744073709551615\n  list:\n    - \"2020-01-01\"\n    - ms: 0.000000001\n      phase: \"dial\"\n    - - 1\n      - \"1:30\"\n  empty: []\n  ms: 84.0\n  drained: false\n  note: null\n";
        assert_eq!(to_string(&[row]).unwrap(), expected);
        assert_eq!(to_string(&json!([])).unwrap(), "[]\n");
    }

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let odd = "a \"b\" \\ \n\t\r\u{0}\u{1b}\u{7f}\u{85}\u{a0}\u{2028}\u{202e}\u{feff}ünï § \u{1f600} # : - !x &y *z % @";
        let value = json!({ "rows": [{ "name": odd, "nested": { "deep": [[], {}, "", " ", "~", "0x1F", -1, 2.5] } }], "last": "yes" });
        let text = to_string(&value).unwrap();
        assert_eq!(serde_norway::from_str::<serde_json::Value>(&text).unwrap(), value, "{text}");
    }
}
