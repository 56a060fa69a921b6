//! Text shown to people: parsed from `§` codes or from a JSON component, written as either.
//!
//! Bounded whatever comes in: what goes past a bound is cut off. Control characters (but newlines) are left out, so that a
//! text can be written to a terminal. Of click and hover events those are kept that 1.7 knows and a server may send; `§` codes
//! and plain text have none.

mod event;
mod json;
mod translate;

use std::fmt;

use event::Events;

/// Most bytes of text, and of what events say.
pub const MAX_BYTES: usize = 32_767;
/// Most JSON components that are looked at, and that a text is written as: the outer one, one for each piece of one style, and
/// those that are shown for it.
pub const MAX_NODES: usize = 256;
/// How deep JSON components may lie in each other; deeper ones are left out.
pub const MAX_DEPTH: usize = 32;
/// The longest JSON of a component that the game takes, in UTF-16 units.
pub const MAX_JSON: usize = 32_767;

/// The sign that begins a code.
const SIGN: char = '§';
/// The codes of the colours, in order.
const COLOURS: &str = "0123456789abcdef";
/// The codes of the formats, in the order of their bits in [`Style`].
const FORMATS: &str = "klmno";

/// Why something is no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It is not JSON.
    #[error("not a JSON text component: {0}")]
    Json(String),
}

/// A text: pieces, each of one style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    spans: Vec<Span>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    text: String,
    style: Style,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Style {
    look: Look,
    events: Events,
}

/// What codes can say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Look {
    /// An index into [`COLOURS`].
    colour: Option<u8>,
    /// Bits in the order of [`FORMATS`].
    formats: u8,
}

impl Text {
    /// Parses text with `§` codes. Unknown codes and a last lone `§` are left out, as a client does not show them either.
    pub fn legacy(text: &str) -> Text {
        let mut builder = Builder::default();
        builder.legacy(text, &Style::default());
        builder.text
    }

    /// Parses a JSON component: a string, an object, or an array of them.
    ///
    /// # Errors
    /// If it is not JSON, or JSON of more than 127 levels.
    pub fn from_json(json: &str) -> Result<Text, TextError> {
        let value = serde_json::from_str(json).map_err(|error| TextError::Json(error.to_string()))?;
        Ok(Text::from_value(&value))
    }

    /// The text as a JSON component for 1.7, of at most [`MAX_JSON`] bytes: a text that would take more has no events, and if
    /// that is not enough it is cut.
    pub fn to_json(&self) -> String {
        json::write(&self.spans)
    }

    /// The text of a component that is JSON already.
    pub(crate) fn from_value(value: &serde_json::Value) -> Text {
        let mut builder = Builder::default();
        builder.component(value, &Style::default(), 0);
        builder.text
    }

    /// The text with `§` codes.
    pub fn to_legacy(&self) -> String {
        let mut out = String::new();
        let mut now = Look::default();
        for Span { text, style: Style { look, .. } } in &self.spans {
            let mut formats = look.formats & !now.formats;
            if look.colour != now.colour || now.formats & !look.formats != 0 {
                out.push(SIGN);
                // A colour ends all formats, and so does `r`, which ends the colour too.
                out.push(look.colour.and_then(|colour| COLOURS.chars().nth(colour.into())).unwrap_or('r'));
                formats = look.formats;
            }
            for (bit, code) in FORMATS.chars().enumerate() {
                if formats >> bit & 1 == 1 {
                    out.extend([SIGN, code]);
                }
            }
            out.push_str(text);
            now = *look;
        }
        out
    }

    /// The text without any style.
    pub fn plain(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

/// Writes the plain text.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spans.iter().try_for_each(|span| f.write_str(&span.text))
    }
}

/// A text in the making, which keeps to the bounds.
#[derive(Default)]
struct Builder {
    text: Text,
    bytes: usize,
    /// Bytes of what events say.
    event_bytes: usize,
    /// JSON components seen so far.
    nodes: usize,
    /// A bound was met: nothing more is taken.
    full: bool,
}

impl Builder {
    fn legacy(&mut self, text: &str, style: &Style) {
        let mut style = style.clone();
        let mut pieces = text.split(SIGN);
        self.push(pieces.next().unwrap_or_default(), &style);
        for piece in pieces {
            let mut chars = piece.chars();
            if let Some(code) = chars.next() {
                style.look.apply(code.to_ascii_lowercase());
            }
            self.push(chars.as_str(), &style);
        }
    }

    fn push(&mut self, text: &str, style: &Style) {
        let mut joins = self.text.spans.last().is_some_and(|span| span.style == *style);
        for c in text.chars().filter(|&c| c == '\n' || !c.is_control()) {
            if self.full || self.bytes + c.len_utf8() > MAX_BYTES {
                self.full = true;
                return;
            }
            let spans = self.text.spans.len();
            match self.text.spans.last_mut() {
                Some(span) if joins => span.text.push(c),
                _ if spans == MAX_NODES - 1 => {
                    self.full = true;
                    return;
                }
                _ => self.text.spans.push(Span { text: c.to_string(), style: style.clone() }),
            }
            joins = true;
            self.bytes += c.len_utf8();
        }
    }
}

impl Look {
    fn apply(&mut self, code: char) {
        if let Some(colour) = COLOURS.find(code) {
            *self = Look { colour: Some(colour as u8), formats: 0 };
        } else if let Some(format) = FORMATS.find(code) {
            self.formats |= 1 << format;
        } else if code == 'r' {
            *self = Look::default();
        }
    }
}
