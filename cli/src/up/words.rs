//! What `up` tells whoever started it.

use std::net::SocketAddr;

use super::network::Network;
use crate::failure::Outcome;
use crate::output;

/// What is served where.
pub(super) struct Place<'a> {
    /// Where players connect.
    pub(super) listen: SocketAddr,
    /// Whether they must prove who they are.
    pub(super) online: bool,
    /// The control plane's URL.
    pub(super) control: &'a str,
    /// Where everything is kept.
    pub(super) store: &'a str,
    /// How many other `up` of this user run: then the admin verbs must be told which is meant.
    pub(super) others: usize,
}

/// Says what is served where, and what to try next.
pub(super) fn greet(place: &Place<'_>, network: &Network) -> Outcome {
    output::line(&greeting(&own_name(), place, network))
}

/// How this command was called, for the next to be called the same way (`target/release/moonbridge`, by `cargo run`).
fn own_name() -> String {
    std::env::args()
        .next()
        .filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
        .unwrap_or_else(|| "moonbridge".to_owned())
}

fn greeting(own: &str, place: &Place<'_>, network: &Network) -> String {
    let Place { listen, online, control, store, others } = *place;
    let which = if others == 0 { String::new() } else { format!(" --control {control}") };
    let mut lines = vec![
        "MoonBridge is up".to_owned(),
        format!("  players connect to  {listen}{}", if online { " (online mode)" } else { "" }),
        format!("  control plane       {control}"),
        format!("  store               {store}"),
    ];
    for (name, address) in &network.backends {
        lines.push(format!("  backend             {name} at {address}"));
    }
    match network.route.as_slice() {
        [] => lines.push("  route *             none yet: players are refused until there is one".to_owned()),
        route => lines.push(format!("  route *             {}", route.join(", "))),
    }
    if others > 0 {
        lines.push(format!(
            "  others              {others} more `moonbridge up` of yours: admin verbs need --control {control} for this one"
        ));
    }
    lines.push(String::new());
    lines.push("Try in another terminal:".to_owned());
    if network.route.is_empty() {
        lines.push(format!("  {own} backend set lobby --address HOST:PORT{which}"));
        lines.push(format!("  {own} route set '*' --backends lobby{which}"));
    }
    lines.push(format!("  {own} status {}", reachable(listen)));
    // The probe has no account.
    if !online {
        lines.push(format!("  {own} probe {} --name Alice --hold 60s", reachable(listen)));
    }
    lines.push(format!("  {own} player list{which}"));
    if let [.., last] = network.route.as_slice()
        && network.route.len() > 1
    {
        lines.push(format!("  {own} transfer start Alice --to {last}{which}"));
    }
    lines.push("Ctrl-C ends it".to_owned());
    lines.join("\n")
}

/// An address that can be connected to, where the node listens on all.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let mut address = listen;
    if listen.ip().is_unspecified() {
        address.set_ip(match listen {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_commands_fit_what_there_is() {
        let mut network = Network { backends: vec![], route: vec![] };
        let listen = "0.0.0.0:25565".parse().unwrap();
        let mut place = Place { listen, online: false, control: "http://127.0.0.1:1", store: "s", others: 0 };
        let text = greeting("moonbridge", &place, &network);
        assert!(text.contains("moonbridge backend set") && !text.contains("transfer start"), "{text}");
        assert!(text.contains("moonbridge probe 127.0.0.1:25565"), "{text}");
        network.route = vec!["demo-1".into(), "demo-2".into()];
        let text = greeting("moonbridge", &place, &network);
        assert!(text.contains("transfer start Alice --to demo-2\n") && !text.contains("backend set"), "{text}");
        place.others = 1;
        let text = greeting("moonbridge", &place, &network);
        assert!(text.contains("player list --control http://127.0.0.1:1\n"), "{text}");
        assert!(text.contains(" probe "), "{text}");
        place.online = true;
        let text = greeting("moonbridge", &place, &network);
        assert!(text.contains("0.0.0.0:25565 (online mode)\n") && !text.contains(" probe "), "{text}");
    }
}
