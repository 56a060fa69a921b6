//! Proxies that are not ours, started side by side with a node: nginx, haproxy, and what a user's command starts.
//!
//! What they have to do is the same: listen at one address, and pass all that comes to another, in the foreground.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path as File, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::login;
use super::path::Path;
use super::processes::{Place, Process, START, free_port, within};

/// Where Debian's libnginx-mod-stream puts the module. Elsewhere nginx is taken to have it built in.
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Starts the proxy of this path and waits until a player can log in through it.
///
/// # Errors
/// If the path is not one of a peer, its program is not installed or does not serve.
pub async fn start(path: &Path, to: &Route<'_>, place: Place<'_>) -> anyhow::Result<(Process, SocketAddr)> {
    let listen = free_port()?;
    let command = match path {
        Path::Nginx => nginx(listen, to, place.dir)?,
        Path::Haproxy => haproxy(listen, to, place.dir)?,
        Path::Peer(name) => custom(listen, to, name)?,
        other => bail!("{other} is no peer"),
    };
    let mut process = Process::start_group(path.name(), &command, place)?;
    within(
        START,
        &format!("log in through {path}"),
        &mut process,
        || async move { login::player(listen, "bench_start", None).await.map(drop) },
    )
    .await?;
    Ok((process, listen))
}

/// Where a peer leads.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// The backend.
    pub backend: SocketAddr,
    /// Players at a time.
    pub connections: usize,
    /// What starts a user's peer.
    pub command: Option<&'a str>,
}

fn nginx(listen: SocketAddr, to: &Route<'_>, dir: &File) -> anyhow::Result<Command> {
    let program = program("nginx", "apt-get install nginx-light libnginx-mod-stream")?;
    let module = if File::new(NGINX_STREAM).exists() { format!("load_module {NGINX_STREAM};\n") } else { String::new() };
    let Route { backend, connections, .. } = to;
    let config = format!(
        "{module}daemon off;\nworker_processes 1;\npid nginx.pid;\nevents {{ worker_connections {}; }}\n\
         stream {{\n    access_log off;\n    tcp_nodelay on;\n    proxy_timeout 1h;\n    server {{ listen {listen}; proxy_pass {backend}; }}\n}}\n",
        room(*connections),
    );
    let file = dir.join("nginx.conf");
    fs::write(&file, config)?;
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p"]).arg(dir).arg("-c").arg(&file);
    Ok(command)
}

fn haproxy(listen: SocketAddr, to: &Route<'_>, dir: &File) -> anyhow::Result<Command> {
    let program = program("haproxy", "apt-get install haproxy")?;
    let Route { backend, connections, .. } = to;
    let config = format!(
        "global\n    nbthread 1\n    maxconn {}\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n\
         listen bench\n    bind {listen}\n    server backend {backend}\n",
        room(*connections),
    );
    let file = dir.join("haproxy.cfg");
    fs::write(&file, config)?;
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(&file);
    Ok(command)
}

fn custom(listen: SocketAddr, to: &Route<'_>, name: &str) -> anyhow::Result<Command> {
    let line = to
        .command
        .with_context(|| format!("no command starts the path {name}: give --peer {name}=COMMAND, or set {} to it", variable(name)))?;
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("LISTEN", listen.to_string()).env("BACKEND", to.backend.to_string());
    Ok(command)
}

/// The variable of the environment that may hold the command of the peer `name`.
pub fn variable(name: &str) -> String {
    let upper: String = name.chars().map(|each| if each.is_ascii_alphanumeric() { each.to_ascii_uppercase() } else { '_' }).collect();
    format!("MOONBRIDGE_PEER_{upper}")
}

/// Connections that it must have room for: two a player, and some that come and go.
fn room(players: usize) -> usize {
    2 * players + 128
}

/// Where a program lies: on the PATH, or where Debian keeps those that users' PATHs lack.
fn program(name: &str, install: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).map(|folder| folder.join(name));
    files.find(|file| file.is_file()).with_context(|| format!("{name} is not installed: {install} (or leave it out of --paths)"))
}
