//! Commands: lines of chat that begin with a slash.

/// A line taken apart as BungeeCord does (its `PluginManager.dispatchCommand`): at single spaces, so that two of them have an
/// empty word between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'a> {
    /// What stands between the slash and the first space: never empty.
    pub root: &'a str,
    /// What stands behind the first space; `None` if there is no space, so that the root may still be being typed.
    pub rest: Option<&'a str>,
}

impl<'a> Command<'a> {
    /// The command that a line is. A slash with nothing or a space behind it is none.
    pub fn of(line: &'a str) -> Option<Command<'a>> {
        let line = line.strip_prefix('/')?;
        let (root, rest) = line.split_once(' ').map_or((line, None), |(root, rest)| (root, Some(rest)));
        (!root.is_empty()).then_some(Command { root, rest })
    }

    /// Whether this is the command with that name, in any case of its letters.
    pub fn is(&self, name: &str) -> bool {
        lower_case(self.root).eq(lower_case(name))
    }

    /// The words behind the root, empty ones among them: the last one is what is being typed.
    pub fn words(&self) -> impl DoubleEndedIterator<Item = &'a str> + use<'a> {
        self.rest.into_iter().flat_map(|rest| rest.split(' '))
    }

    /// The words behind the root that say something.
    pub fn arguments(&self) -> impl DoubleEndedIterator<Item = &'a str> + use<'a> {
        self.words().filter(|word| !word.is_empty())
    }
}

fn lower_case(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}
