//! What `up` tells whoever started it.

use std::net::SocketAddr;

use super::network::Network;
use crate::failure::Outcome;
use crate::output;

/// Says what is served where, and what to try next.
pub(super) fn greet(listen: SocketAddr, control: &str, store: &str, network: &Network) -> Outcome {
    output::line(&greeting(listen, control, store, network))
}

fn greeting(listen: SocketAddr, control: &str, store: &str, network: &Network) -> String {
    let mut lines = vec![
        "MoonBridge is up".to_owned(),
        format!("  players connect to  {listen}"),
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
    lines.push(String::new());
    lines.push("Try in another terminal:".to_owned());
    if network.route.is_empty() {
        lines.push("  moonbridge backend set lobby --address HOST:PORT".to_owned());
        lines.push("  moonbridge route set '*' --backends lobby".to_owned());
    }
    lines.push(format!("  moonbridge status {}", reachable(listen)));
    lines.push(format!("  moonbridge probe {} --name Alice --hold 60s", reachable(listen)));
    lines.push("  moonbridge player list".to_owned());
    if let [.., last] = network.route.as_slice()
        && network.route.len() > 1
    {
        lines.push(format!("  moonbridge transfer start Alice --to {last}"));
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
        let text = greeting(listen, "http://127.0.0.1:1", "s", &network);
        assert!(text.contains("moonbridge backend set") && !text.contains("transfer start"), "{text}");
        assert!(text.contains("moonbridge probe 127.0.0.1:25565"), "{text}");
        network.route = vec!["demo-1".into(), "demo-2".into()];
        let text = greeting(listen, "http://127.0.0.1:1", "s", &network);
        assert!(text.contains("transfer start Alice --to demo-2") && !text.contains("backend set"), "{text}");
    }
}
