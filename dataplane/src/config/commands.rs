//! The commands in the game: which there are, what they are called, and how often they may be used.

use std::path::PathBuf;
use std::sync::Arc;

use moonbridge_proto::config::{ConfigError, Fields};

use super::set;
use crate::commands::{Kind, Languages, Table};

/// The language unless another is given.
const ENGLISH: &str = "en";

/// The most names of one command.
const MAX_NAMES: usize = 16;

/// The longest name of a command, in bytes: what fits a line of chat, and leaves room.
const LONGEST_NAME: usize = 64;

/// The commands that the node answers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// Those that are on, and their names. With none, players' chat is not looked at.
    pub table: Arc<Table>,
    /// Where `/hub` leads; without one, to the first usable backend of the player's route.
    pub hub: Option<String>,
    /// The language of clients whose own there is none of.
    pub language: String,
    /// A folder of files that override texts or add languages.
    pub messages: Option<PathBuf>,
    /// The texts: those that are built in, until the folder has been read.
    pub languages: Arc<Languages>,
    /// Commands of one player in a second, on the average.
    pub rate: u32,
    /// Commands of one player at once.
    pub burst: u32,
}

impl Commands {
    pub(super) fn read(&mut self, fields: &mut Fields) {
        let enabled = fields.bool("enabled").unwrap_or(true);
        self.hub = fields.string("hub");
        set(&mut self.language, fields.string("language"));
        self.messages = fields.path("messages");
        self.languages = Arc::new(Languages::built_in(&self.language));
        set(&mut self.rate, fields.integer("rate", 1..=1_000));
        set(&mut self.burst, fields.integer("burst", 1..=1_000));
        let mut table = Table::EMPTY;
        for kind in Kind::ALL {
            read_names(fields, kind, &mut table);
        }
        self.table = Arc::new(if enabled { table } else { Table::EMPTY });
    }

    /// The texts, with what the folder says.
    pub(super) fn read_languages(&self) -> Result<Languages, Vec<ConfigError>> {
        Languages::load(self.messages.as_deref(), &self.language)
    }
}

/// Reads one command's table. Names that are taken or none are mistakes.
fn read_names(fields: &mut Fields, kind: Kind, table: &mut Table) {
    let given = fields.table(kind.name(), |fields| {
        let enabled = fields.bool("enabled").unwrap_or(true);
        let names = fields.strings("names").unwrap_or_else(|| vec![kind.name().to_owned()]);
        if names.is_empty() || names.len() > MAX_NAMES {
            fields.wrong("names", format!("expected 1 to {MAX_NAMES} names; enabled = false turns the command off"));
        }
        for (index, name) in names.iter().enumerate() {
            if let Some(problem) = name_problem(name) {
                fields.wrong(&format!("names[{index}]"), problem);
            }
        }
        if enabled { names } else { Vec::new() }
    });
    for name in given.unwrap_or_else(|| vec![kind.name().to_owned()]) {
        if let Err(other) = table.add(&name, kind) {
            let place = format!("{}.names", kind.name());
            fields.wrong(&place, format!("{name:?} is a name of the command {:?} already: every name once", other.name()));
        }
    }
}

fn name_problem(name: &str) -> Option<String> {
    let is_wrong = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == '§';
    (name.len() > LONGEST_NAME || name.contains(is_wrong))
        .then(|| format!("expected a command's name without its slash: at most {LONGEST_NAME} bytes, no spaces, got {name:?}"))
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            table: Arc::default(),
            hub: None,
            language: ENGLISH.to_owned(),
            messages: None,
            languages: Arc::new(Languages::built_in(ENGLISH)),
            rate: 10,
            burst: 20,
        }
    }
}
