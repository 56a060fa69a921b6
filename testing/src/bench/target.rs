//! Where players come in, one way or another.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::{sleep, timeout};

use super::login::{self, Playing};
use super::processes::BACKENDS;
use crate::admin::{Admin, Moved};
use crate::session_server::SessionServer;

/// Logins under way at a time.
const AT_ONCE: usize = 16;

/// How long a login, or a transfer, may take.
const LOGIN: Duration = Duration::from_secs(20);

/// Where players come in.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Where they connect.
    pub address: SocketAddr,
    /// Who they tell that they do, if they are to be online.
    pub session_server: Option<&'a SessionServer>,
    /// Where admins connect who move every player to another backend before anything else.
    pub transfers: Option<SocketAddr>,
}

impl Target<'_> {
    /// Offline, at this address.
    pub fn offline(address: SocketAddr) -> Self {
        Target { address, session_server: None, transfers: None }
    }

    /// Logs so many players in, named `prefix` and a number.
    pub async fn players(&self, prefix: &str, connections: usize) -> anyhow::Result<Vec<Playing>> {
        let login = async |index: usize| {
            let login = timeout(LOGIN, login::player(self.address, &format!("{prefix}_{index}"), self.session_server)).await;
            let playing = login.map_err(|_| anyhow!("it took longer than {LOGIN:?}")).flatten();
            playing.with_context(|| format!("login of player {index}"))
        };
        let mut players: Vec<Playing> = stream::iter(0..connections).map(login).buffered(AT_ONCE).try_collect().await?;
        if let Some(control) = self.transfers {
            let mut admin = Admin::connect(&format!("http://{control}")).await;
            for (index, player) in players.iter_mut().enumerate() {
                let moved = timeout(LOGIN, transfer(&mut admin, &format!("{prefix}_{index}"), player)).await;
                let moved = moved.map_err(|_| anyhow!("it took longer than {LOGIN:?}")).flatten();
                moved.with_context(|| format!("transfer of player {index}"))?;
            }
        }
        Ok(players)
    }
}

/// Moves a player to the other backend. It may take a moment until the control plane knows of a login.
async fn transfer(admin: &mut Admin, name: &str, player: &mut Playing) -> anyhow::Result<()> {
    let asked = async {
        while let Moved { succeeded: false, reason, detail, .. } = admin.transfer(name, BACKENDS[1]).await {
            ensure!(reason == "player_offline", "{reason}: {detail}");
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    tokio::try_join!(asked, player.join()).map(drop)
}
