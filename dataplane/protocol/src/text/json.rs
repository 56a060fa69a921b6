//! JSON components, as 1.7 writes and reads them (minecraft.wiki, "Raw JSON text format").

use serde_json::{Map, Value, json};

use super::{Builder, Look, MAX_DEPTH, MAX_JSON, MAX_NODES, Span, Style, translate};

/// The colours' names, in the order of their codes.
const COLOUR_NAMES: [&str; 16] = [
    "black",
    "dark_blue",
    "dark_green",
    "dark_aqua",
    "dark_red",
    "dark_purple",
    "gold",
    "gray",
    "dark_gray",
    "blue",
    "green",
    "aqua",
    "red",
    "light_purple",
    "yellow",
    "white",
];

/// The formats' names, in the order of their codes.
const FORMAT_NAMES: [&str; 5] = ["obfuscated", "bold", "strikethrough", "underlined", "italic"];

/// Writes spans as one component of at most [`MAX_JSON`] bytes.
pub(super) fn write(spans: &[Span]) -> String {
    let (bytes, nodes) = spans.iter().fold((0, 1), |(bytes, nodes), span| {
        let (more_bytes, more_nodes) = span.style.events.size();
        (bytes + more_bytes, nodes + 1 + more_nodes)
    });
    // Looked at first, since many pieces may share one long event.
    let mut events = bytes <= MAX_JSON && nodes <= MAX_NODES;
    let mut budget = usize::MAX;
    loop {
        let json = component(spans, budget, events).to_string();
        if json.len() <= MAX_JSON {
            return json;
        }
        if !std::mem::take(&mut events) {
            // Every round halves the text, so that this ends; at nothing left it is `{"text":""}`.
            budget = budget.min(spans.iter().map(|span| span.text.len()).sum()) / 2;
        }
    }
}

/// The component of the first `budget` bytes of text, with events or without.
pub(super) fn component(spans: &[Span], mut budget: usize, events: bool) -> Value {
    let mut pieces = Vec::new();
    for Span { text, style } in spans {
        let shown = &text[..text.floor_char_boundary(budget)];
        budget -= shown.len();
        if shown.is_empty() {
            break;
        }
        let mut piece = Map::new();
        piece.insert("text".into(), shown.into());
        style.look.write(&mut piece);
        if events {
            style.events.write(&mut piece);
        }
        pieces.push(Value::Object(piece));
        // Cut within a character there is budget left, but nothing is to follow the cut.
        if shown.len() < text.len() {
            break;
        }
    }
    match pieces.len() {
        // An empty `extra` is an error to a client.
        0 => json!({ "text": "" }),
        1 => pieces.remove(0),
        _ => json!({ "text": "", "extra": pieces }),
    }
}

impl Builder {
    /// Appends a component and what it holds.
    pub(super) fn component(&mut self, value: &Value, style: &Style, depth: usize) {
        self.nodes += 1;
        if self.full || depth >= MAX_DEPTH || self.nodes > MAX_NODES {
            return;
        }
        match value {
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) => self.legacy(&value.to_string(), style),
            Value::String(text) => self.legacy(text, style),
            // The first of an array is the parent of the others.
            Value::Array(items) => {
                let inherited = items.first().and_then(Value::as_object).map(|first| self.style(style, first, depth + 1));
                for item in items {
                    self.component(item, inherited.as_ref().unwrap_or(style), depth + 1);
                }
            }
            Value::Object(fields) => {
                let style = self.style(style, fields, depth);
                self.object(fields, &style, depth);
            }
        }
    }

    /// The style of a component with these fields within one of `style`.
    fn style(&mut self, style: &Style, fields: &Map<String, Value>, depth: usize) -> Style {
        Style { look: style.look.of(fields), events: self.events(fields, style.events.clone(), depth) }
    }

    fn object(&mut self, fields: &Map<String, Value>, style: &Style, depth: usize) {
        if let Some(text) = fields.get("text") {
            self.scalar(text, style);
        } else if let Some(key) = fields.get("translate").and_then(Value::as_str) {
            let arguments = fields.get("with").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            self.translated(key, arguments, style, depth);
        } else if let Some(score) = fields.get("score").and_then(Value::as_object) {
            self.scalar(score.get("value").or_else(|| score.get("name")).unwrap_or(&Value::Null), style);
        } else if let Some(name) = fields.get("selector").or_else(|| fields.get("keybind")) {
            self.scalar(name, style);
        }
        match fields.get("extra") {
            Some(Value::Array(items)) => items.iter().for_each(|item| self.component(item, style, depth + 1)),
            Some(other) => self.component(other, style, depth + 1),
            None => {}
        }
    }

    fn scalar(&mut self, value: &Value, style: &Style) {
        match value {
            Value::String(text) => self.legacy(text, style),
            Value::Bool(_) | Value::Number(_) => self.legacy(&value.to_string(), style),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }

    fn translated(&mut self, key: &str, arguments: &[Value], style: &Style, depth: usize) {
        let Some(pattern) = translate::english(key) else {
            self.legacy(key, style);
            for (index, argument) in arguments.iter().enumerate() {
                self.push(if index == 0 { ": " } else { ", " }, style);
                self.component(argument, style, depth + 1);
            }
            return;
        };
        let mut pieces = pattern.split("%s");
        self.push(pieces.next().unwrap_or_default(), style);
        for (index, piece) in pieces.enumerate() {
            self.component(arguments.get(index).unwrap_or(&Value::Null), style, depth + 1);
            self.push(piece, style);
        }
    }
}

impl Look {
    fn write(self, fields: &mut Map<String, Value>) {
        if let Some(name) = self.colour.and_then(|colour| COLOUR_NAMES.get(usize::from(colour))) {
            fields.insert("color".into(), (*name).into());
        }
        for (bit, name) in FORMAT_NAMES.iter().enumerate() {
            if self.formats >> bit & 1 == 1 {
                fields.insert((*name).into(), true.into());
            }
        }
    }

    /// This look as a component with these fields changes it.
    fn of(mut self, fields: &Map<String, Value>) -> Look {
        match fields.get("color").and_then(Value::as_str) {
            Some("reset") => self = Look::default(),
            Some(name) => {
                if let Some(colour) = COLOUR_NAMES.iter().position(|known| name.eq_ignore_ascii_case(known)) {
                    self.colour = Some(colour as u8);
                }
            }
            None => {}
        }
        for (bit, name) in FORMAT_NAMES.iter().enumerate() {
            match fields.get(*name) {
                Some(Value::Bool(true)) => self.formats |= 1 << bit,
                Some(Value::Bool(false)) => self.formats &= !(1 << bit),
                Some(Value::String(text)) if text == "true" => self.formats |= 1 << bit,
                Some(Value::String(text)) if text == "false" => self.formats &= !(1 << bit),
                _ => {}
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_a_cut_within_a_character() {
        let span = |text: &str| Span { text: text.to_owned(), style: Style::default() };
        let spans = [span("éé"), span("ab")];
        assert_eq!(component(&spans, 3, true), json!({ "text": "é" }));
        assert_eq!(component(&spans, 1, true), json!({ "text": "" }));
        assert_eq!(component(&spans, 5, true), json!({ "text": "", "extra": [{ "text": "éé" }, { "text": "a" }] }));
    }
}
