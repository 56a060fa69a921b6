//! The `moonbridge` command: both planes in one process (`up`), each alone, and every admin verb.
//!
//! `args` is the command line; what each noun does is in the module of its name. A command ends with [`ExitCode`] 0 when it is
//! done, 1 when it was refused or failed, 2 for a mistake in its arguments or configuration, 3 when no control plane answers.

mod admin;
mod args;
mod config_check;
mod control;
pub mod demo;
mod failure;
mod framed;
mod import_file;
mod leftovers;
mod output;
mod plane;
mod probe;
mod state;
mod status;
mod time;
mod up;
mod yaml;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use moonbridge_proto::telemetry;

use admin::Session;
use args::{AdminArgs, Cli, Command, ConfigVerb};
use failure::{Failure, Outcome};

/// How long spans may take to get out at the end.
const FLUSH: Duration = Duration::from_secs(2);

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                output::note(&format!("error: {failure}"));
            }
            ExitCode::from(failure.code)
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Completions { shell } => completions(shell),
        Command::Config { verb: ConfigVerb::Check { files, kind } } => config_check::run(&files, kind),
        command => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
            let result = runtime.block_on(run_async(command));
            // A look-up of a host name that hangs must not hold up the end.
            runtime.shutdown_timeout(Duration::from_millis(100));
            result
        }
    }
}

async fn run_async(command: Command) -> Outcome {
    match command {
        Command::Up(args) => up::run(args).await,
        Command::Dataplane(args) => plane::dataplane(args).await,
        Command::Controlplane(args) => plane::controlplane(args).await,
        Command::Probe(args) => probe::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Node { admin, verb } => with_session(&admin, async |session| admin::node::run(session, verb).await).await,
        Command::Backend { admin, verb } => with_session(&admin, async |session| admin::backend::run(session, verb).await).await,
        Command::Route { admin, verb } => with_session(&admin, async |session| admin::route::run(session, verb).await).await,
        Command::Player { admin, verb } => with_session(&admin, async |session| admin::player::run(session, verb).await).await,
        Command::Session { admin, verb } => with_session(&admin, async |session| admin::session::run(session, verb).await).await,
        Command::Transfer { admin, verb } => with_session(&admin, async |session| admin::transfer::run(session, verb).await).await,
        Command::Permission { admin, verb } => with_session(&admin, async |session| admin::permission::run(session, verb).await).await,
        Command::Token { admin, verb } => with_session(&admin, async |session| admin::token::run(session, verb).await).await,
        Command::Audit { admin, audit } => with_session(&admin, async |session| admin::audit::run(session, audit).await).await,
        Command::Completions { .. } | Command::Config { .. } => Ok(()),
    }
}

/// Connects to the control plane and runs a verb; its traces get out before the process ends.
async fn with_session(args: &AdminArgs, verb: impl AsyncFnOnce(Session) -> Outcome) -> Outcome {
    let telemetry = telemetry::init("moonbridge-cli", telemetry::Options { level: "error", ..Default::default() });
    let result = match Session::open(args).await {
        Ok(session) => verb(session).await,
        Err(failure) => Err(failure),
    };
    telemetry.flush(FLUSH).await;
    result
}

fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "moonbridge", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_and_argument_has_a_help_text() {
        fn check(command: &clap::Command, path: &str) {
            for argument in command.get_arguments().filter(|argument| !argument.is_global_set() || path.matches(' ').count() == 1) {
                assert!(argument.get_help().is_some(), "{path} {}", argument.get_id());
            }
            for verb in command.get_subcommands() {
                let path = format!("{path} {}", verb.get_name());
                assert!(verb.get_about().is_some(), "{path}");
                check(verb, &path);
            }
        }
        check(&Cli::command(), "moonbridge");
    }
}
