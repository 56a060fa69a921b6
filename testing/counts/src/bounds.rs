//! Bounds between figures of one run, which hold whatever the baseline says.

use crate::callgrind::Figure;

/// The first costs at most so many times what the second does.
const BOUNDS: &[(&str, &str, f64)] = &[
    // What a session has been through costs its frames nothing.
    ("session: burst32, keep-alives", "session: burst32", 1.03),
    ("session: burst32, moved", "session: burst32", 1.03),
    ("relay: vanilla, keep-alives", "relay: vanilla", 1.03),
    ("relay: vanilla, moved", "relay: vanilla", 1.03),
    ("relay: forge", "relay: vanilla", 1.03),
    ("relay: forge, moved", "relay: vanilla", 1.03),
    // Nor does what is looked for in players' lines and on the plugin channel.
    ("relay: vanilla", "relay: vanilla, plain", 1.01),
    ("relay: forge, moved", "relay: forge, moved, plain", 1.01),
    ("session: burst32", "session: burst32, plain", 1.03),
    // A check costs no more in a set ten times as large, and by wildcards no more than a look-up for each.
    ("permission: exact in many", "permission: exact", 1.1),
    ("permission: wildcard", "permission: exact", 3.6),
    ("permission: undefined", "permission: exact", 4.1),
];

/// What is said of bounds that are exceeded.
pub(crate) fn complaints(figures: &[(&'static str, Figure)]) -> Vec<String> {
    let figure = |name| figures.iter().find(|(other, _)| *other == name).map(|(_, figure)| figure.ours);
    let exceeded = BOUNDS.iter().filter_map(|(name, other, most)| {
        let (Some(ours), Some(others)) = (figure(*name), figure(*other)) else {
            return Some(format!("{name} and {other} cannot be compared: not both are counted"));
        };
        let ratio = ours / others;
        (ratio > *most).then(|| {
            format!("{name}: {ours:.1} instructions are {ratio:.3} times those of {other} ({others:.1}), at most {most} is allowed")
        })
    });
    exceeded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_alike(of: impl Fn(&str) -> f64) -> Vec<(&'static str, Figure)> {
        let names = BOUNDS.iter().flat_map(|(name, other, _)| [*name, *other]);
        names.map(|name| (name, Figure { ours: of(name), libc: 0.0 })).collect()
    }

    #[test]
    fn what_costs_more_than_it_may_is_told() {
        assert_eq!(complaints(&all_alike(|_| 100.0)), Vec::<String>::new());
        let told = complaints(&all_alike(|name| if name == "relay: forge" { 104.0 } else { 100.0 }));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("relay: forge: 104.0 instructions are 1.040 times"), "{told:?}");
    }

    #[test]
    fn what_is_not_counted_is_told() {
        assert_eq!(complaints(&[]).len(), BOUNDS.len());
    }
}
