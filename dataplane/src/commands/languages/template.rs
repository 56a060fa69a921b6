//! A text with places for values: `&aYou are on {backend}.`

use std::fmt::Write;

use moonbridge_protocol::text::Text;

/// The codes of colours and formats.
const CODES: &str = "0123456789abcdefklmnor";

/// A text with places for values. Colour codes are written with `&` or `§`, and a brace that is none of a place is doubled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Text with `§` codes, and no other `§`.
    Marked(String),
    /// The name of a value.
    Place(String),
}

/// What is put in.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Shown as it is, whatever is in it.
    Plain(&'a str),
    /// May have codes of its own, with `&` or `§`.
    Marked(&'a str),
    /// A number.
    Number(u64),
}

impl Template {
    /// Reads a template, of which `allowed` are the places that there may be.
    ///
    /// # Errors
    /// A place that is none, or a lone brace.
    pub(super) fn parse(text: &str, allowed: &[&str]) -> Result<Template, String> {
        let mut template = Template::default();
        let mut marked = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            marked.push_str(before);
            if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
                marked.push_str(&brace[..1]);
                rest = after;
                continue;
            }
            let (name, after) = brace
                .strip_prefix('{')
                .and_then(|place| place.split_once('}'))
                .ok_or("a brace stands alone: write {{ or }} for one that is to be shown")?;
            if !allowed.contains(&name) {
                return Err(unknown_place(name, allowed));
            }
            template.0.push(Piece::Marked(translate(&marked)));
            template.0.push(Piece::Place(name.to_owned()));
            marked.clear();
            rest = after;
        }
        marked.push_str(rest);
        template.0.push(Piece::Marked(translate(&marked)));
        Ok(template)
    }

    /// Whether there is a place of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Place(place) if place == name))
    }

    /// The text with these values, and nothing for a place that has none.
    pub(super) fn fill(&self, values: &[(&str, Value<'_>)]) -> Text {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Marked(marked) => text.push_str(marked),
                Piece::Place(name) => {
                    if let Some((_, value)) = values.iter().find(|(place, _)| place == name) {
                        value.put(&mut text);
                    }
                }
            }
        }
        Text::legacy(&text)
    }
}

impl Value<'_> {
    fn put(&self, text: &mut String) {
        match self {
            // A client takes `§` for a code wherever it stands, so there is no way to show one.
            Value::Plain(plain) => text.extend(plain.chars().filter(|&c| c != '§' && !c.is_control())),
            Value::Marked(marked) => text.extend(translate(marked).chars().filter(|c| !c.is_control())),
            Value::Number(number) => {
                let _ = write!(text, "{number}");
            }
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Plain(text)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

/// Codes with `§`; a sign that begins none is left out if it is `§`, for it would make one of what follows, and is itself if it is `&`.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let code = chars.peek().copied().filter(|next| CODES.contains(next.to_ascii_lowercase()));
        match (c, code) {
            ('&' | '§', Some(code)) => {
                out.extend(['§', code]);
                chars.next();
            }
            ('§', None) => {}
            (c, _) => out.push(c),
        }
    }
    out
}

fn unknown_place(name: &str, allowed: &[&str]) -> String {
    let shown: String = name.chars().take(40).collect();
    let there_are = match allowed {
        [] => "none".to_owned(),
        allowed => allowed.iter().map(|place| format!("{{{place}}}")).collect::<Vec<_>>().join(", "),
    };
    format!("{{{shown}}} is no place of this text; there are: {there_are}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str, value: Value<'_>) -> Text {
        Template::parse(template, &["x"]).expect("a template").fill(&[("x", value)])
    }

    #[test]
    fn codes_are_written_with_either_sign_and_braces_are_doubled() {
        assert_eq!(fill("&aA §lB & C && D &z{{x}}", "".into()), Text::legacy("§aA §lB & C && D &z{x}"));
    }

    #[test]
    fn a_value_is_shown_as_it_is_in_the_colour_of_its_place() {
        assert_eq!(fill("&a{x}&r!", "&c§cA{x}\u{7}\n😀".into()), Text::legacy("§a&ccA{x}😀§r!"));
        assert_eq!(fill("&a{x}&r!", Value::Marked("&cB§")), Text::legacy("§cB§r!"));
        assert_eq!(fill("{x}{x}", 12_u32.into()).plain(), "1212");
        // Neither sign before a place makes a code of the value.
        assert_eq!(fill("&{x}", "cat".into()).plain(), "&cat");
        assert_eq!(fill("§{x}", "cat".into()).plain(), "cat");
        assert_eq!(fill("{x}", Value::Marked("a§")).append(Text::legacy("cat")).plain(), "acat");
    }

    #[test]
    fn places_that_are_none_and_lone_braces_are_mistakes() {
        let mistake = |text| Template::parse(text, &["player", "backend"]).expect_err("a mistake");
        assert_eq!(mistake("{plyer}"), "{plyer} is no place of this text; there are: {player}, {backend}");
        for text in ["{", "a } b", "{player", "}}}", "{{{"] {
            assert!(mistake(text).contains("stands alone"), "{text}");
        }
        assert!(mistake("{}").starts_with("{} is no place"));
    }
}
