//! What happens when a piece of text is clicked or pointed at: the events that 1.7 knows and a server may send.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Builder, MAX_BYTES, Span, Style, Text, json};

/// What a click does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Click {
    /// Opens a page, once the player has agreed: `http` or `https`, as the client opens no others.
    OpenUrl(String),
    /// Says a line for the player, as if typed: a command, mostly.
    RunCommand(String),
    /// Puts a line where the player types.
    SuggestCommand(String),
}

/// What is shown beside the pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hover {
    /// A text, which has no events of its own.
    Text(Text),
    /// An item, in the game's own notation.
    Item(String),
    /// An achievement or a statistic, by its id.
    Achievement(String),
}

/// The events of a piece; shared, as pieces inherit them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Events {
    pub(super) click: Option<Arc<Click>>,
    pub(super) hover: Option<Arc<Hover>>,
}

impl Click {
    /// The event with this name; `None` if there is none such, or its value will not do.
    pub(super) fn of(action: &str, value: &str) -> Option<Click> {
        if value.len() > MAX_BYTES || value.chars().any(char::is_control) {
            return None;
        }
        let web = |scheme: &str| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        match action {
            "open_url" if web("http://") || web("https://") => Some(Click::OpenUrl(value.to_owned())),
            "run_command" => Some(Click::RunCommand(value.to_owned())),
            "suggest_command" => Some(Click::SuggestCommand(value.to_owned())),
            // `open_file` is the client's own, and would be an attack.
            _ => None,
        }
    }

    fn parts(&self) -> (&'static str, &str) {
        match self {
            Click::OpenUrl(value) => ("open_url", value),
            Click::RunCommand(value) => ("run_command", value),
            Click::SuggestCommand(value) => ("suggest_command", value),
        }
    }
}

impl Events {
    /// Writes them as a component's fields.
    pub(super) fn write(&self, fields: &mut Map<String, Value>) {
        if let Some(click) = &self.click {
            let (action, value) = click.parts();
            fields.insert("clickEvent".into(), json!({ "action": action, "value": value }));
        }
        if let Some(hover) = &self.hover {
            let (action, value) = match &**hover {
                Hover::Text(text) => ("show_text", json::component(&text.spans, usize::MAX, false)),
                Hover::Item(value) => ("show_item", value.as_str().into()),
                Hover::Achievement(value) => ("show_achievement", value.as_str().into()),
            };
            fields.insert("hoverEvent".into(), json!({ "action": action, "value": value }));
        }
    }

    /// About how long they are as JSON, and of how many components.
    pub(super) fn size(&self) -> (usize, usize) {
        let click = self.click.as_ref().map_or(0, |click| click.parts().1.len());
        let (hover, nodes) = match self.hover.as_deref() {
            None => (0, 0),
            Some(Hover::Text(text)) => (text.spans.iter().map(|span| span.text.len()).sum(), text.spans.len() + 1),
            Some(Hover::Item(value) | Hover::Achievement(value)) => (value.len(), 0),
        };
        (click + hover, nodes)
    }
}

impl Builder {
    /// The events of a component with these fields, which inherits `events`. What goes past a bound is left out.
    pub(super) fn events(&mut self, fields: &Map<String, Value>, mut events: Events, depth: usize) -> Events {
        let event = |name: &str| {
            let event = fields.get(name)?.as_object()?;
            Some((event.get("action")?.as_str()?, event.get("value")?))
        };
        if let Some((action, Value::String(value))) = event("clickEvent")
            && let Some(click) = Click::of(action, value)
            && self.affords(value.len())
        {
            events.click = Some(Arc::new(click));
        }
        if let Some((action, value)) = event("hoverEvent")
            && let Some(hover) = self.hover(action, value, depth)
        {
            events.hover = Some(Arc::new(hover));
        }
        events
    }

    fn hover(&mut self, action: &str, value: &Value, depth: usize) -> Option<Hover> {
        if action == "show_text" {
            let mut builder = Builder { nodes: self.nodes, event_bytes: self.event_bytes, ..Builder::default() };
            builder.component(value, &Style::default(), depth + 1);
            self.nodes = builder.nodes;
            self.event_bytes = builder.event_bytes;
            let text = builder.text.without_events();
            return (!text.is_empty() && self.affords(builder.bytes)).then_some(Hover::Text(text));
        }
        // The client takes a component here, too, and looks at its text only.
        let value = value.as_str().or_else(|| value.get("text")?.as_str())?;
        let hover = match action {
            "show_item" => Hover::Item(value.to_owned()),
            "show_achievement" => Hover::Achievement(value.to_owned()),
            _ => return None,
        };
        self.affords(value.len()).then_some(hover)
    }

    /// Whether events of so many bytes more are within the bound; if so, they are counted.
    fn affords(&mut self, bytes: usize) -> bool {
        let affords = self.event_bytes + bytes <= MAX_BYTES;
        self.event_bytes += if affords { bytes } else { 0 };
        affords
    }
}

/// What a command's answer is made with. Each event is that of all of the text so far.
impl Text {
    /// A click says `line` for the player, as if typed.
    #[must_use]
    pub fn click_run(self, line: &str) -> Text {
        self.click(Click::of("run_command", line))
    }

    /// A click puts `line` where the player types.
    #[must_use]
    pub fn click_suggest(self, line: &str) -> Text {
        self.click(Click::of("suggest_command", line))
    }

    /// A click opens a page: one with `http://` or `https://`, or nothing comes of it.
    #[must_use]
    pub fn click_open(self, url: &str) -> Text {
        self.click(Click::of("open_url", url))
    }

    /// Pointing at it shows `text`, if there is any; its own events are left out.
    #[must_use]
    pub fn hover(mut self, text: Text) -> Text {
        let hover = (!text.is_empty()).then(|| Arc::new(Hover::Text(text.without_events())));
        self.spans.iter_mut().for_each(|span| span.style.events.hover.clone_from(&hover));
        self.rejoined()
    }

    /// This text and then `other`, as far as the bounds allow.
    #[must_use]
    pub fn append(self, other: Text) -> Text {
        let bytes = self.spans.iter().map(|span| span.text.len()).sum();
        let mut builder = Builder { text: self, bytes, ..Builder::default() };
        other.spans.iter().for_each(|Span { text, style }| builder.push(text, style));
        builder.text
    }

    fn click(mut self, click: Option<Click>) -> Text {
        let click = click.map(Arc::new);
        self.spans.iter_mut().for_each(|span| span.style.events.click.clone_from(&click));
        self.rejoined()
    }

    fn without_events(mut self) -> Text {
        self.spans.iter_mut().for_each(|span| span.style.events = Events::default());
        self.rejoined()
    }

    /// Neighbours that have come to be of one style are one piece.
    fn rejoined(mut self) -> Text {
        self.spans.dedup_by(|next, span| {
            let one = next.style == span.style;
            if one {
                span.text.push_str(&next.text);
            }
            one
        });
        self
    }
}
