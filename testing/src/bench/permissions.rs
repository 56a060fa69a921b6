//! What the permission benchmark is made of: a crowd of players that do nothing but stay, a network around them, a file to import.

pub mod crowd;
pub mod file;
pub mod import;
pub mod propagation;

/// Times of one kind.
#[derive(Debug, Clone)]
pub struct Row {
    /// Of what.
    pub what: &'static str,
    /// In microseconds, as they came.
    pub micros: Vec<u64>,
}

impl Row {
    /// p50, p99 and the longest, in milliseconds; `None` of nothing.
    pub fn quantiles(&self) -> Option<[f64; 3]> {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        Some([0.5, 0.99, 1.0].map(|part| sorted[(last as f64 * part).ceil() as usize] as f64 / 1000.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_times_and_never_too_good() {
        let row = Row { what: "test", micros: (1..=200).rev().map(|ms| ms * 1000).collect() };
        assert_eq!(row.quantiles(), Some([101.0, 199.0, 200.0]));
        assert_eq!(Row { what: "none", micros: Vec::new() }.quantiles(), None);
    }
}
