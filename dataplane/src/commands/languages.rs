//! What players are told, each in the language of its client. English and Chinese are built in; a folder of files overrides
//! them phrase by phrase, or adds others.

mod phrase;
mod template;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use moonbridge_proto::config::{ConfigError, ConfigErrors, Fields, read_file};
use moonbridge_protocol::text::Text;

pub use phrase::Phrase;
use template::Template;
pub use template::Value;

/// The language of what a file does not say.
const ENGLISH: &str = "en";

/// The languages that are built in: the names of their files without the ending, and the files.
const BUILT_IN: [(&str, &str); 2] = [(ENGLISH, include_str!("../../messages/en.toml")), ("zh", include_str!("../../messages/zh.toml"))];

/// Most files of languages; the game itself has about a hundred languages.
const MAX_FILES: usize = 256;

/// The longest name of a language.
const MAX_NAME: usize = 16;

/// All languages.
#[derive(Clone, PartialEq, Eq)]
pub struct Languages {
    /// By name, in lower case.
    texts: BTreeMap<String, Arc<Texts>>,
    /// For clients whose language there is none of.
    default: Arc<Texts>,
}

/// What is said in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts(Vec<Template>);

impl Languages {
    /// The languages that are built in; `default` is that of clients whose own is not among them.
    pub fn built_in(default: &str) -> Languages {
        let mut texts = BTreeMap::new();
        let mut base = Texts(vec![Template::default(); Phrase::ALL.len()]);
        for (name, file) in BUILT_IN {
            // English comes first, and stands in for what others lack. That the files are right is tested.
            if let Ok(read) = Texts::read(file, &base) {
                base = if name == ENGLISH { read.clone() } else { base };
                texts.insert(name.to_owned(), Arc::new(read));
            }
        }
        let default = texts.get(default).cloned().unwrap_or_else(|| Arc::new(base));
        Languages { texts, default }
    }

    /// The same with what the files in `folder` say, if there is one.
    ///
    /// # Errors
    /// Every mistake in them, with its place below `field`; or that the language `default` does not exist.
    pub(crate) fn load(folder: Option<&Path>, default: &str) -> Result<Languages, Vec<ConfigError>> {
        let mut languages = Languages::built_in(default);
        let english = languages.texts.get(ENGLISH).cloned().unwrap_or_else(|| languages.default.clone());
        let mut mistakes = Vec::new();
        let files = folder.map(files_in).transpose().unwrap_or_else(|problem| {
            mistakes.push(ConfigError { field: MESSAGES.to_owned(), problem });
            None
        });
        for (name, path) in files.unwrap_or_default() {
            let base = languages.texts.get(&name).unwrap_or(&english);
            match read_file(&path).and_then(|file| Texts::read(&file, base)) {
                Ok(texts) => {
                    languages.texts.insert(name, Arc::new(texts));
                }
                Err(errors) => mistakes.extend(errors.0.into_iter().map(|error| in_file(&path, error))),
            }
        }
        match languages.texts.get(&default.to_lowercase()) {
            Some(texts) => languages.default = texts.clone(),
            // Its file may be the one with the mistakes.
            None if mistakes.is_empty() => {
                let problem = format!("there is no language {default:?}; there are: {}", languages.names().collect::<Vec<_>>().join(", "));
                mistakes.push(ConfigError { field: "commands.language".to_owned(), problem });
            }
            None => {}
        }
        if mistakes.is_empty() { Ok(languages) } else { Err(mistakes) }
    }

    /// The texts for a client that says this locale: `en_US` finds `en_us`, or else `en`.
    pub(crate) fn of(&self, locale: Option<&str>) -> &Arc<Texts> {
        let Some(locale) = locale.map(str::to_lowercase) else { return &self.default };
        let language = locale.split(['_', '-']).next().unwrap_or_default();
        self.texts.get(&locale).or_else(|| self.texts.get(language)).unwrap_or(&self.default)
    }

    /// The texts for everybody at once.
    pub(crate) fn default_texts(&self) -> &Texts {
        &self.default
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }
}

/// The names only.
impl fmt::Debug for Languages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Texts {
    /// Reads a file; what it does not say is as in `base`.
    fn read(file: &str, base: &Texts) -> Result<Texts, ConfigErrors> {
        let mut fields = Fields::parse(file)?;
        let mut texts = base.clone();
        for (&phrase, template) in Phrase::ALL.iter().zip(&mut texts.0) {
            let Some(text) = fields.text(phrase.key()) else { continue };
            match Template::parse(&text, phrase.places()) {
                Ok(read) => {
                    for place in phrase.needed().iter().filter(|place| !read.has(place)) {
                        fields.wrong(phrase.key(), format!("expected {{{place}}} somewhere in this text"));
                    }
                    *template = read;
                }
                Err(problem) => fields.wrong(phrase.key(), problem),
            }
        }
        fields.finish()?;
        Ok(texts)
    }

    /// A phrase with these values.
    pub(crate) fn say(&self, phrase: Phrase, values: &[(&str, Value<'_>)]) -> Text {
        self.0.get(phrase as usize).map(|template| template.fill(values)).unwrap_or_default()
    }
}

/// The field that names the folder.
const MESSAGES: &str = "commands.messages";

/// The languages' files in a folder, by the languages' names.
fn files_in(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{} cannot be read: {error}", folder.display()))?.path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let name = path.file_stem().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let is_language = name.len() <= MAX_NAME && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        if !is_language {
            return Err(format!("{} is named like no language: expected such as en.toml or zh_tw.toml", path.display()));
        }
        files.push((name, path));
        if files.len() > MAX_FILES {
            return Err(format!("{} has more than {MAX_FILES} files", folder.display()));
        }
    }
    files.sort();
    Ok(files)
}

/// A mistake in one of the files.
fn in_file(path: &Path, error: ConfigError) -> ConfigError {
    let file = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    ConfigError { field: MESSAGES.to_owned(), problem: format!("{file}: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_languages_say_everything_and_nothing_wrong() {
        for (name, file) in BUILT_IN {
            let mut empty = Texts(vec![Template::default(); Phrase::ALL.len()]);
            let texts = Texts::read(file, &empty).unwrap_or_else(|errors| panic!("{name}: {errors}"));
            for (&phrase, template) in Phrase::ALL.iter().zip(&texts.0) {
                assert_ne!(template, &Template::default(), "{name} lacks {}", phrase.key());
            }
            empty.0.clear();
            assert_eq!(empty.say(Phrase::Ping, &[]), Text::default());
        }
        let keys =
            |file: &str| -> Vec<_> { file.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.to_owned()).collect() };
        let expected: Vec<_> = Phrase::ALL.iter().map(|phrase| phrase.key()).collect();
        assert_eq!(
            (keys(BUILT_IN[0].1), keys(BUILT_IN[1].1)),
            (expected.iter().map(|key| (*key).to_owned()).collect(), keys(BUILT_IN[0].1))
        );
    }

    #[test]
    fn a_client_is_spoken_to_in_its_own_language() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("pt_BR.toml"), "ping = \"Seu ping: {ping} ms\"").expect("written");
        std::fs::write(folder.path().join("en.toml"), "ping = \"{ping}!\"").expect("written");
        std::fs::write(folder.path().join("notes.txt"), "not a language").expect("written");
        let languages = Languages::load(Some(folder.path()), "zh").expect("valid");
        assert_eq!(languages.names().collect::<Vec<_>>(), ["en", "pt_br", "zh"]);
        let ping = |locale| languages.of(locale).say(Phrase::Ping, &[("ping", 7_u32.into())]).plain();
        assert_eq!(ping(Some("pt_BR")), "Seu ping: 7 ms");
        assert_eq!((ping(Some("en_US")), ping(Some("EN"))), ("7!".to_owned(), "7!".to_owned()));
        let chinese = ping(Some("zh_TW"));
        assert!(chinese.contains("延迟") && chinese.contains('7'), "{chinese}");
        for other in [None, Some(""), Some("_"), Some("pt_PT"), Some("de_DE")] {
            assert_eq!(ping(other), chinese, "{other:?}");
        }
        // What the file does not say is said in English.
        let refused = |locale| languages.of(locale).say(Phrase::NotPermitted, &[]);
        assert_eq!(refused(Some("pt_BR")), refused(Some("en_GB")));
    }

    #[test]
    fn mistakes_in_files_have_a_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, file: &str| std::fs::write(folder.path().join(name), file).expect("written");
        write("de.toml", "found = \"{player}\"\npings = \"\"\nping = 7\nkicked = \"{player} {reason}\"\n");
        write("fr.toml", "ping = \n");
        let found = |default| -> Vec<_> {
            let mistakes = Languages::load(Some(folder.path()), default).expect_err("mistakes");
            mistakes.iter().map(ToString::to_string).collect()
        };
        let mistakes = found("fr");
        let expected = [
            "commands.messages: de.toml: found: expected {backend} somewhere in this text",
            "commands.messages: de.toml: kicked: {reason} is no place of this text; there are: {player}",
            "commands.messages: de.toml: ping: expected a text, got 7",
            "commands.messages: de.toml: pings: unknown field; did you mean \"ping\"?",
            "commands.messages: fr.toml: line 1, column ",
        ];
        assert_eq!(mistakes.len(), expected.len(), "{mistakes:#?}");
        for (mistake, expected) in mistakes.iter().zip(expected) {
            assert!(mistake.starts_with(expected), "{mistake}");
        }
        std::fs::remove_file(folder.path().join("de.toml")).expect("removed");
        std::fs::remove_file(folder.path().join("fr.toml")).expect("removed");
        assert_eq!(found("de"), ["commands.language: there is no language \"de\"; there are: en, zh"]);
        write("a b.toml", "");
        assert!(found("en")[0].contains("named like no language"));
        let missing = Languages::load(Some(&folder.path().join("missing")), "en").expect_err("no such folder");
        assert!(missing[0].to_string().starts_with("commands.messages: "), "{missing:?}");
    }
}
