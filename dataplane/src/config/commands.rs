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
        set(&mut self.language, fields.string("language"));
        self.messages = fields.path("messages");
        self.languages = Arc::new(Languages::built_in(&self.language));
        set(&mut self.rate, fields.integer("rate", 1..=1_000));
        set(&mut self.burst, fields.integer("burst", 1..=1_000));
        let mut table = Table::EMPTY;
        for kind in Kind::ALL {
            self.read_command(fields, kind, &mut table);
        }
        self.table = Arc::new(if enabled { table } else { Table::EMPTY });
    }

    /// Reads one command's own table. Names that are taken or none are mistakes.
    fn read_command(&mut self, fields: &mut Fields, kind: Kind, table: &mut Table) {
        let given = fields.table(kind.name(), |fields| {
            if kind == Kind::Hub {
                self.hub = fields.string("backend");
            }
            read_names(fields, kind)
        });
        for name in given.unwrap_or_else(|| vec![kind.name().to_owned()]) {
            if let Err(other) = table.add(&name, kind) {
                let problem = format!("{name:?} is a name of the command {:?} already: every name once", other.name());
                fields.wrong(&format!("{}.names", kind.name()), problem);
            }
        }
    }

    /// The texts, with what the folder says.
    pub(super) fn read_languages(&self) -> Result<Languages, Vec<ConfigError>> {
        Languages::load(self.messages.as_deref(), &self.language)
    }
}

/// What players call a command; nothing if it is off.
fn read_names(fields: &mut Fields, kind: Kind) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use moonbridge_protocol::command::Command;

    use crate::commands::Kind;
    use crate::config::Config;

    fn commands(text: &str) -> super::Commands {
        Config::parse(text).unwrap_or_else(|errors| panic!("{errors}")).commands
    }

    fn mistakes(text: &str) -> Vec<String> {
        Config::parse(text).map_err(|errors| errors.0.iter().map(ToString::to_string).collect()).expect_err("a mistake")
    }

    fn called(commands: &super::Commands, line: &str) -> Option<Kind> {
        Command::of(line).and_then(|command| commands.table.get(&command))
    }

    #[test]
    fn every_command_is_on_under_its_own_name_unless_it_is_said_otherwise() {
        let commands = commands("");
        assert_eq!(commands, super::Commands::default());
        for kind in Kind::ALL {
            assert_eq!(called(&commands, &format!("/{} x", kind.name().to_uppercase())), Some(kind));
            assert_eq!(commands.table.name_of(kind), Some(kind.name()));
        }
    }

    #[test]
    fn every_field_is_read() {
        let commands = commands(
            r#"
            [commands]
            language = "zh"
            messages = "/etc/moonbridge/messages"
            rate = 1
            burst = 2
            [commands.hub]
            backend = "lobby"
            "#,
        );
        assert_eq!((commands.hub.as_deref(), commands.language.as_str(), commands.rate, commands.burst), (Some("lobby"), "zh", 1, 2));
        assert_eq!(commands.messages.as_deref().and_then(|path| path.to_str()), Some("/etc/moonbridge/messages"));
    }

    #[test]
    fn names_are_configured_command_by_command() {
        let commands = commands(
            "[commands.hub]\nnames = [\"spawn\", \"大厅\"]\n[commands.kick]\nenabled = false\nnames = [\"x\"]\n[commands.find]\nnames = [\"kick\"]",
        );
        assert_eq!(["/hub", "/Spawn", "/大厅"].map(|line| called(&commands, line)), [None, Some(Kind::Hub), Some(Kind::Hub)]);
        assert_eq!(commands.table.name_of(Kind::Hub), Some("spawn"));
        assert_eq!(
            (called(&commands, "/kick"), called(&commands, "/x"), commands.table.name_of(Kind::Kick)),
            (Some(Kind::Find), None, None)
        );
        let off = super::tests::commands("[commands]\nenabled = false\n[commands.hub]\nnames = [\"spawn\"]");
        assert!(off.table.is_empty());
    }

    #[test]
    fn mistakes_have_their_field() {
        let found = mistakes(
            "[commands]\nrate = 0\nburst = 1_001\nlanguage = \"\"\nlangauge = \"zh\"\n\
             [commands.ping]\nnames = []\nname = \"pong\"\n\
             [commands.find]\nnames = [\"where is\", \"/where\", \"Where\", \"where\"]\n\
             [commands.send]\nnames = [\"Server\"]\n[commands.help]\n",
        );
        let fields: Vec<&str> = found.iter().filter_map(|mistake| mistake.split(": ").next()).collect();
        let expected = [
            "commands.language",
            "commands.rate",
            "commands.burst",
            "commands.find.names[0]",
            "commands.find.names[1]",
            "commands.find.names",
            "commands.send.names",
            "commands.ping.names",
            "commands.ping.name",
            "commands.help",
            "commands.langauge",
        ];
        assert_eq!(fields, expected, "{found:#?}");
        assert!(found[5].contains("\"where\" is a name of the command \"find\" already"), "{}", found[5]);
        assert!(found[6].contains("\"Server\" is a name of the command \"server\" already"), "{}", found[6]);
    }

    /// What is off has no names, so others may have them.
    #[test]
    fn two_commands_with_one_name_are_a_mistake_even_by_default() {
        let found = mistakes("[commands.hub]\nnames = [\"ping\"]\nbackend = 1");
        assert!(found[0].starts_with("commands.hub.backend: ") && found[1].starts_with("commands.ping.names: "), "{found:#?}");
        assert!(Config::parse("[commands.hub]\nnames = [\"ping\"]\n[commands.ping]\nenabled = false").is_ok());
    }

    #[test]
    fn texts_are_read_with_the_file_and_mistakes_in_them_are_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dataplane.toml");
        let messages = folder.path().join("messages");
        std::fs::create_dir(&messages).expect("made");
        std::fs::write(&file, format!("[commands]\nlanguage = \"de\"\nmessages = {messages:?}")).expect("written");
        std::fs::write(messages.join("de.toml"), "failed = \"Das ging nicht.\"").expect("written");
        let config = Config::load(&file).expect("valid");
        assert_eq!(config.commands.languages.names().collect::<Vec<_>>(), ["de", "en", "zh"]);
        std::fs::write(messages.join("de.toml"), "failed = \"{reason}\"").expect("written");
        let mistakes = Config::load(&file).expect_err("a mistake").to_string();
        assert_eq!(mistakes, "commands.messages: de.toml: failed: {reason} is no place of this text; there are: none");
        assert_eq!(config.check_files().expect_err("a mistake").to_string(), mistakes);
        let unknown = Config::parse("[commands]\nlanguage = \"de\"").expect("no files are looked at").check_files();
        assert_eq!(unknown.expect_err("a mistake").to_string(), "commands.language: there is no language \"de\"; there are: en, zh");
    }
}
