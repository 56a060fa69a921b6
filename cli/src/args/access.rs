//! The part of the command line about who may call, and who has changed what.

use clap::{Args, Subcommand, ValueEnum};
use moonbridge_permissions::duration;

use crate::time;

use super::values;

/// Verbs of `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token and print it, alone on stdout; it is kept nowhere and never shown again.
    ///
    /// As a file for --token-file (or a node's token_file): moonbridge token create ci --role viewer > ci.token
    Create {
        /// Its name, which the audit shows: 1 to 64 of a-z, 0-9, '.', '_', '-'.
        #[arg(value_parser = values::token_name)]
        name: String,
        /// What its holder may do.
        #[arg(long, value_enum)]
        role: RoleArg,
        /// How long it holds (30d, 12h, 1y) [default: until it is revoked].
        #[arg(long = "for", value_name = "TIME", value_parser = lifetime)]
        lifetime: Option<u64>,
    },
    /// List the tokens; those that have expired, too.
    List,
    /// Take a token back: no replica lets it in any more, and what is open with it ends.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// What a caller may do; each role may all that the one before may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Look.
    Viewer,
    /// Move, kick and message players; drain nodes and backends.
    Operator,
    /// Everything; and be a node.
    Admin,
}

/// Options of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only what this caller changed (the name of its token; `configured`, `anyone` or `configuration`).
    #[arg(long, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// Only changes of this kind: backend, backend.set, permission, token, ...
    #[arg(long, value_name = "KIND")]
    pub(crate) what: Option<String>,
    /// Only what was done to this: a part of the target as it is shown, such as "backend lobby".
    #[arg(long, value_name = "TEXT")]
    pub(crate) target: Option<String>,
    /// Only changes since then: so long ago (2h, 7d), or a date (2026-12-31, 2026-12-31T18:00:00Z).
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<i64>,
    /// At most so many, the newest.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

/// In seconds.
fn lifetime(text: &str) -> Result<u64, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// A moment, in milliseconds since 1970.
fn since(text: &str) -> Result<i64, String> {
    let seconds = match duration::parse(text) {
        Ok(ago) => time::now().saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX)),
        Err(_) => time::unix_seconds(text).map_err(|expected| format!("{expected}; or so long ago, such as 2h or 7d"))?,
    };
    Ok(seconds.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_date_or_so_long_ago() {
        assert_eq!(since("2024-02-29T12:30:45Z"), Ok(1_709_209_845_000));
        let ago = time::now() * 1_000 - since("2h").unwrap();
        assert!((7_200_000..7_210_000).contains(&ago), "{ago}");
        let problem = since("yesterday").unwrap_err();
        assert!(problem.contains("2026-12-31") && problem.contains("2h"), "{problem}");
    }
}
