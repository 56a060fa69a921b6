//! Java's regular expressions for an engine that takes linear time, whatever the expression.
//!
//! What the engine cannot do is refused in plain words; what it spells differently is translated. LuckPerms lower-cases expression
//! and permission alike, which is why `r=Foo` matches `foo`, and why its `\S` is a `\s`; here case is ignored and `\S` is `\S`.

use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// What almost every one takes up compiled at most, in bytes.
const USUAL_SIZE: usize = 32 << 10;
/// What one may take up, and then again for what its matching remembers.
const MAX_SIZE: usize = USUAL_SIZE * LARGE as usize;
/// So many usual ones a large one counts for.
const LARGE: u16 = 8;
/// How deep groups may nest.
const MAX_DEPTH: u32 = 50;

/// An expression that matches the whole or nothing, and how many usual ones it counts for.
pub(super) fn compile(java: &str) -> Result<(Regex, u16), String> {
    let pattern = format!(r"\A(?:{})\z", Translation::of(java)?);
    let within = |size: usize| {
        let mut builder = RegexBuilder::new(&pattern);
        builder.case_insensitive(true).size_limit(size).dfa_size_limit(size).nest_limit(MAX_DEPTH).build()
    };
    match within(USUAL_SIZE) {
        Ok(usual) => Ok((usual, 1)),
        Err(regex::Error::CompiledTooBig(_)) => within(MAX_SIZE).map(|large| (large, LARGE)).map_err(|error| problem(&error)),
        Err(error) => Err(problem(&error)),
    }
}

/// The engine explains over several lines; the last says what is wrong.
fn problem(error: &regex::Error) -> String {
    if matches!(error, regex::Error::CompiledTooBig(_)) {
        return "it is too large".to_owned();
    }
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    done: String,
    groups: u32,
    classes: u32,
    before: Before,
}

/// What a quantifier would follow.
#[derive(PartialEq, Eq)]
enum Before {
    Anything,
    Quantifier,
    LazyQuantifier,
}

impl Translation<'_> {
    fn of(java: &str) -> Result<String, String> {
        if java.is_empty() {
            return Err("it is empty".to_owned());
        }
        let mut all = Translation { rest: java.chars().peekable(), done: String::new(), groups: 0, classes: 0, before: Before::Anything };
        while let Some(c) = all.rest.next() {
            all.next(c)?;
        }
        Ok(all.done)
    }

    fn next(&mut self, c: char) -> Result<(), String> {
        let in_class = self.classes > 0;
        match c {
            '\\' => return self.escape(),
            '[' => {
                self.classes += 1;
                self.done.push(c);
                self.start_of_class();
                self.before = Before::Anything;
                return Ok(());
            }
            ']' if in_class => self.classes -= 1,
            _ if in_class => {}
            '(' => {
                self.groups += 1;
                self.before = Before::Anything;
                self.done.push(c);
                return self.start_of_group();
            }
            ')' => self.groups = self.groups.checked_sub(1).ok_or("a bracket closes that has not been opened")?,
            '*' | '+' | '?' | '{' => return self.quantifier(c),
            _ => {}
        }
        self.done.push(c);
        self.before = Before::Anything;
        Ok(())
    }

    /// A bracket that closes right at the start is itself meant.
    fn start_of_class(&mut self) {
        if let Some(not) = self.rest.next_if_eq(&'^') {
            self.done.push(not);
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.done.push_str(r"\]");
        }
    }

    fn start_of_group(&mut self) -> Result<(), String> {
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.done.push('?');
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('=' | '!'), _) | (Some('<'), Some('=' | '!')) => return Err("look-ahead and look-behind are not supported".to_owned()),
            (Some('>'), _) => return Err("atomic groups are not supported".to_owned()),
            (Some('<'), _) => return Ok(()),
            _ => {}
        }
        // Flags: those that mean something else to this engine are refused.
        while let Some(flag) = self.rest.next_if(|&flag| flag != ':' && flag != ')') {
            if !matches!(flag, 'i' | 'm' | 's' | '-') {
                return Err(format!("the flag {flag:?} is not supported"));
            }
            self.done.push(flag);
        }
        Ok(())
    }

    fn quantifier(&mut self, c: char) -> Result<(), String> {
        self.before = match (&self.before, c) {
            (Before::Anything, _) => Before::Quantifier,
            (Before::Quantifier, '?') => Before::LazyQuantifier,
            (Before::Quantifier, '+') => return Err("possessive quantifiers are not supported".to_owned()),
            _ => return Err("a quantifier follows a quantifier".to_owned()),
        };
        self.done.push(c);
        if c == '{' {
            self.up_to_brace();
        }
        Ok(())
    }

    /// What follows in braces, if anything does, belongs to what came before and is no quantifier.
    fn braces(&mut self) {
        if let Some(open) = self.rest.next_if_eq(&'{') {
            self.done.push(open);
            self.up_to_brace();
        }
    }

    fn up_to_brace(&mut self) {
        for inner in self.rest.by_ref() {
            self.done.push(inner);
            if inner == '}' {
                break;
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        self.before = Before::Anything;
        let Some(c) = self.rest.next() else { return Err("it ends with a backslash".to_owned()) };
        match c {
            // Only ASCII, in Java.
            'd' => self.done.push_str("[0-9]"),
            'D' => self.done.push_str("[^0-9]"),
            'w' => self.done.push_str("[a-zA-Z0-9_]"),
            'W' => self.done.push_str("[^a-zA-Z0-9_]"),
            's' => self.done.push_str(r"[ \t\n\x0B\f\r]"),
            'S' => self.done.push_str(r"[^ \t\n\x0B\f\r]"),
            'Q' => self.quoted(),
            '1'..='9' | 'k' => return Err("back-references are not supported".to_owned()),
            'p' | 'P' | 'x' => {
                self.done.extend(['\\', c]);
                self.braces();
            }
            _ if c.is_ascii_alphanumeric() => self.done.extend(['\\', c]),
            _ => self.done.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
        Ok(())
    }

    /// From `\Q` to `\E` everything is itself meant.
    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.done.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
    }
}
