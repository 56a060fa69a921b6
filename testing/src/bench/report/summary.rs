//! Medians over the repeats, with the least and the most, and how the paths compare.

use super::Phase;
use crate::bench::path::Path;
use crate::bench::probe::Probe;

/// One figure of a phase; `None` where it has none.
type Figure = fn(&Phase) -> Option<f64>;

/// What is told of every path: its name, which phases it is of, the figure, its decimals.
const FIGURES: [(&str, Option<Probe>, Figure, usize); 14] = [
    ("frames/s", None, |phase| Some(phase.frames_per_second), 0),
    ("p50 µs", None, |phase| Some(phase.p50_us), 1),
    ("p95 µs", None, |phase| Some(phase.p95_us), 1),
    ("p99 µs", None, |phase| Some(phase.p99_us), 1),
    ("proxy CPU ns/frame", None, |phase| phase.proxy_cpu_ns_per_frame, 1),
    ("  in user mode", Some(Probe::UserPart), |phase| phase.proxy_user_ns_per_frame, 1),
    ("TCP segments/frame", None, |phase| Some(phase.tcp_segments_per_frame), 4),
    ("waits/frame", None, |phase| phase.proxy_waits_per_frame, 4),
    ("preemptions/frame", None, |phase| phase.proxy_preemptions_per_frame, 4),
    ("allocations/frame", Some(Probe::Allocations), |phase| phase.proxy_allocations_per_frame, 4),
    ("proxy RSS MiB", None, |phase| phase.proxy_resident_kib.map(|kib| kib as f64 / 1024.0), 1),
    ("cipher ns/byte", None, cost, 3),
    ("kernel alone ns/byte", None, kernel, 3),
    ("streams side by side", None, |phase| Some(phase.cipher.as_ref()?.streams), 2),
];

/// What the node is compared with the other paths by.
const COMPARED: [(&str, Figure); 8] = [
    ("frames/s", |phase| Some(phase.frames_per_second)),
    ("p50", |phase| Some(phase.p50_us)),
    ("p95", |phase| Some(phase.p95_us)),
    ("p99", |phase| Some(phase.p99_us)),
    ("CPU/frame", |phase| phase.proxy_cpu_ns_per_frame),
    ("TCP segments/frame", |phase| Some(phase.tcp_segments_per_frame)),
    ("switches/frame", |phase| Some(phase.proxy_waits_per_frame? + phase.proxy_preemptions_per_frame?)),
    ("cipher ns/byte", cost),
];

/// Columns that the name of a row takes, and each path beside it.
const NAME: usize = 22;
const PATH: usize = 29;

/// Tables of a run: what was measured; the node against every other path; every path against the direct one.
pub fn summary(phases: &[Phase]) -> String {
    let paths = paths(phases);
    let mut out = row("median [min–max]", paths.iter().map(ToString::to_string));
    for (name, probe, figure, decimals) in FIGURES {
        let of = |path: &&Path| {
            let phases = phases.iter().filter(|phase| phase.path == **path && phase.probe == probe);
            spread(phases.filter_map(figure).collect())
        };
        let spreads: Vec<_> = paths.iter().map(of).collect();
        if spreads.iter().any(Option::is_some) {
            out += &row(name, spreads.into_iter().map(|spread| told(spread, decimals)));
        }
    }

    let others: Vec<&Path> = paths.iter().copied().filter(|&path| *path != Path::Proxied).collect();
    if paths.len() > others.len() && !others.is_empty() {
        out += &row("\nproxied against", others.iter().map(ToString::to_string));
        for (name, figure) in COMPARED {
            let ratios: Vec<_> = others.iter().map(|other| ratio(phases, &Path::Proxied, other, figure)).collect();
            if ratios.iter().any(Option::is_some) {
                out += &row(name, ratios.into_iter().map(|ratio| told(ratio, 3)));
            }
        }
    }
    let proxies: Vec<&Path> = paths.iter().copied().filter(|&path| *path != Path::Direct).collect();
    if paths.len() > proxies.len() && !proxies.is_empty() {
        out += &row("\nagainst direct", proxies.iter().map(ToString::to_string));
        let ratios = proxies.iter().map(|proxy| told(ratio(phases, proxy, &Path::Direct, |phase| Some(phase.frames_per_second)), 3));
        out += &row("frames/s", ratios);
    }
    let shares = paths.iter().map(|path| {
        let of_path = phases.iter().filter(|phase| phase.path == **path);
        spread(of_path.filter_map(|phase| Some(cost(phase)? / kernel(phase)?)).collect())
    });
    let shares: Vec<_> = shares.collect();
    if shares.iter().any(Option::is_some) {
        out += &row("\ncipher/kernel alone", shares.into_iter().map(|share| told(share, 3)));
    }
    out.trim_end().to_owned()
}

/// The paths that there are phases of: the direct one first, then the node's, then the others as they come.
fn paths(phases: &[Phase]) -> Vec<&Path> {
    let mut paths: Vec<&Path> = Vec::new();
    for phase in phases {
        if !paths.contains(&&phase.path) {
            paths.push(&phase.path);
        }
    }
    paths.sort_by_key(|path| match path {
        Path::Direct => 0,
        Path::Proxied => 1,
        _ => 2,
    });
    paths
}

/// Compares two paths repeat by repeat, since the phases of one repeat ran side by side.
fn ratio(phases: &[Phase], one: &Path, other: &Path, figure: Figure) -> Option<[f64; 3]> {
    let of = |path: &Path, repeat| {
        let phase = phases.iter().find(|phase| phase.path == *path && phase.repeat == repeat && phase.probe.is_none())?;
        figure(phase)
    };
    let repeats = phases.iter().filter(|phase| phase.path == *one && phase.probe.is_none()).map(|phase| phase.repeat);
    spread(repeats.filter_map(|repeat| Some(of(one, repeat)? / of(other, repeat)?)).collect())
}

fn cost(phase: &Phase) -> Option<f64> {
    Some(phase.cipher.as_ref()?.ns_per_byte)
}

fn kernel(phase: &Phase) -> Option<f64> {
    Some(phase.cipher.as_ref()?.kernel_ns_per_byte)
}

/// The least, the median and the most; `None` of nothing.
pub(in crate::bench) fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
    Some([min, median, max])
}

pub(in crate::bench) fn told(spread: Option<[f64; 3]>, decimals: usize) -> String {
    spread.map_or_else(|| "-".to_owned(), |[min, median, max]| format!("{median:.decimals$} [{min:.decimals$}–{max:.decimals$}]"))
}

pub(in crate::bench) fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let width = NAME + usize::from(name.starts_with('\n'));
    let line = cells.fold(format!("{name:<width$}"), |line, cell| line + &format!("{cell:<PATH$} "));
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::phase;

    /// The cells of the line that begins so, under the last line before it that has heads.
    fn cells(summary: &str, head: &str, name: &str) -> Vec<String> {
        let table = summary.split("\n\n").find(|table| table.starts_with(head)).unwrap_or_else(|| panic!("no {head} in {summary}"));
        let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {table}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn the_summary_compares_the_phases_of_a_repeat() {
        let phases = [
            phase(1, Path::Direct, None, 1000),
            phase(1, Path::Proxied, None, 500),
            phase(2, Path::Proxied, None, 600),
            phase(2, Path::Direct, None, 1000),
            phase(3, Path::Direct, None, 2000),
            phase(3, Path::Proxied, None, 1800),
        ];
        let summary = summary(&phases);
        assert_eq!(cells(&summary, "median", "frames/s"), ["500 [500–1000]", "300 [250–900]"]);
        assert_eq!(cells(&summary, "proxied against", "frames/s"), ["0.600 [0.500–0.900]"]);
        assert_eq!(cells(&summary, "against direct", "frames/s"), ["0.600 [0.500–0.900]"]);
        assert!(!summary.contains("nginx"), "{summary}");
    }

    #[test]
    fn the_node_is_compared_with_every_peer() {
        let velocity = Path::Peer("velocity".to_owned());
        let phases = [
            phase(1, Path::Nginx, None, 1000),
            phase(1, velocity.clone(), None, 250),
            phase(1, Path::Direct, None, 2000),
            phase(1, Path::Proxied, None, 500),
        ];
        let summary = summary(&phases);
        assert_eq!(cells(&summary, "median", "median [min–max]"), ["direct", "proxied", "nginx", "velocity"]);
        assert_eq!(cells(&summary, "proxied against", "frames/s"), ["0.250 [0.250–0.250]", "0.500 [0.500–0.500]", "2.000 [2.000–2.000]"]);
        assert_eq!(cells(&summary, "proxied against", "CPU/frame"), ["-", "2.000 [2.000–2.000]", "0.500 [0.500–0.500]"]);
        assert_eq!(cells(&summary, "against direct", "frames/s"), ["0.250 [0.250–0.250]", "0.500 [0.500–0.500]", "0.125 [0.125–0.125]"]);
    }

    #[test]
    fn what_a_phase_was_disturbed_for_is_all_that_it_says() {
        let phases = [
            phase(1, Path::Proxied, None, 1000),
            phase(1, Path::Proxied, Some(Probe::UserPart), 10),
            phase(1, Path::Proxied, Some(Probe::Allocations), 10_000),
        ];
        let summary = summary(&phases);
        assert_eq!(cells(&summary, "median", "frames/s"), ["500 [500–500]"]);
        assert_eq!(cells(&summary, "median", "  in user mode"), ["5000000.0 [5000000.0–5000000.0]"]);
        assert_eq!(cells(&summary, "median", "allocations/frame"), ["0.0010 [0.0010–0.0010]"]);
    }

    #[test]
    fn encrypting_together_is_compared_with_alone() {
        let summary = summary(&[phase(1, Path::Proxied, None, 500), phase(1, Path::Alone, None, 500)]);
        assert_eq!(cells(&summary, "proxied against", "cipher ns/byte"), ["0.200 [0.200–0.200]"]);
        assert_eq!(cells(&summary, "cipher/kernel alone", "cipher/kernel alone"), ["0.250 [0.250–0.250]", "1.250 [1.250–1.250]"]);
        assert_eq!(cells(&summary, "median", "streams side by side"), ["16.00 [16.00–16.00]", "1.00 [1.00–1.00]"]);
    }

    #[test]
    fn a_median_of_two_lies_between() {
        assert_eq!(spread(vec![3.0, 1.0]), Some([1.0, 2.0, 3.0]));
        assert_eq!(spread(vec![]), None);
    }
}
