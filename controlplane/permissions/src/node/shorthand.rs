//! `a.{b,c}.{1-3}`: several permissions in one key.

use std::collections::BTreeSet;

/// More results than this, and it is no shorthand.
const MAX_RESULTS: u16 = 1000;
/// So many texts on the way to the results, too: groups in groups take many to come to few.
const MAX_EFFORT: u16 = 4 * MAX_RESULTS;
/// The same for a range from one to the other: so far apart they may be.
const MAX_RANGE: u32 = 250;

/// What a key expands to.
#[derive(Default)]
pub(super) struct Expanded {
    /// Nothing if it holds no group, or too much.
    pub(super) results: BTreeSet<String>,
    /// How many texts it took.
    pub(super) effort: u16,
}

/// Too many results.
struct TooMany;

/// Expands a key.
///
/// Groups may nest. In LuckPerms the first bracket that opens pairs with the first that closes, which comes to the same for groups side
/// by side and leaves brackets over in nested ones: those results nobody asks for.
pub(super) fn expand(key: &str) -> Expanded {
    // Almost every key.
    if innermost_group(key).is_none() {
        return Expanded::default();
    }
    let mut effort = 0;
    let mut results = results(key, &mut effort).unwrap_or_default();
    results.remove(key);
    Expanded { results, effort }
}

fn results(key: &str, effort: &mut u16) -> Result<BTreeSet<String>, TooMany> {
    let mut results = BTreeSet::new();
    // Each round takes a pair of brackets out of every text that has one, so they come to an end.
    let mut texts = BTreeSet::from([key.to_owned()]);
    while !texts.is_empty() {
        let mut next = BTreeSet::new();
        for text in texts {
            let Some((before, between, after)) = innermost_group(&text) else {
                results.insert(text);
                continue;
            };
            for alternative in alternatives(between)? {
                next.insert(format!("{before}{alternative}{after}"));
                *effort += 1;
                if results.len() + next.len() > MAX_RESULTS.into() || *effort == MAX_EFFORT {
                    return Err(TooMany);
                }
            }
        }
        texts = next;
    }
    Ok(results)
}

/// Up to the first bracket that closes, from the last one before it that opens; round or curly makes no difference.
fn innermost_group(text: &str) -> Option<(&str, &str, &str)> {
    let (opened, after) = text.split_at(text.find(['}', ')'])?);
    let (before, between) = opened.split_at(opened.rfind(['{', '('])?);
    Some((before, &between[1..], &after[1..]))
}

/// A range of numbers, a range of characters, or a list.
fn alternatives(between: &str) -> Result<Vec<String>, TooMany> {
    if let Some((from, to)) = numbers(between) {
        let (from, to) = (from.min(to), from.max(to));
        return if from.abs_diff(to) > MAX_RANGE { Err(TooMany) } else { Ok((from..=to).map(|number| number.to_string()).collect()) };
    }
    if let Some((from, to)) = characters(between) {
        let (from, to) = (from.min(to), from.max(to));
        return if to as u32 - from as u32 > MAX_RANGE { Err(TooMany) } else { Ok((from..=to).map(String::from).collect()) };
    }
    if !between.contains([',', '|']) {
        return Ok(vec![between.to_owned()]);
    }
    Ok(between.split([',', '|']).filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

fn numbers(text: &str) -> Option<(i32, i32)> {
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn characters(text: &str) -> Option<(char, char)> {
    let mut chars = text.chars();
    match (chars.next(), chars.next(), chars.next(), chars.next()) {
        (Some(from), Some('-'), Some(to), None) => Some((from, to)),
        _ => None,
    }
}
