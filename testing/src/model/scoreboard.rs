//! The scoreboard of a client's world: what throws there, throws here.

use std::collections::{BTreeMap, BTreeSet};

use moonbridge_protocol::wire::{Reader, WireError};

use super::Broken;

/// Objectives and teams (`net.minecraft.scoreboard.Scoreboard`).
#[derive(Debug, Clone, Default)]
pub(crate) struct Scoreboard {
    objectives: BTreeSet<String>,
    teams: BTreeMap<String, BTreeSet<String>>,
    /// Player → team.
    members: BTreeMap<String, String>,
}

/// What went wrong with a packet: it cannot be read, or what it says cannot be done.
pub(crate) enum Trouble {
    Unreadable(WireError),
    Broken(Broken),
}

impl From<WireError> for Trouble {
    fn from(error: WireError) -> Trouble {
        Trouble::Unreadable(error)
    }
}

fn crash(what: impl Into<String>) -> Trouble {
    Trouble::Broken(Broken::Crash(what.into()))
}

impl Scoreboard {
    pub(crate) fn objectives(&self) -> impl Iterator<Item = &str> {
        self.objectives.iter().map(String::as_str)
    }

    pub(crate) fn teams(&self) -> impl Iterator<Item = &str> {
        self.teams.keys().map(String::as_str)
    }

    /// 3B (`handleScoreboardObjective`).
    pub(crate) fn objective(&mut self, payload: &[u8]) -> Result<(), Trouble> {
        let mut reader = Reader::new(payload);
        let name = reader.string(16)?;
        reader.string(32)?;
        let mode = reader.i8()?;
        reader.finish()?;
        match mode {
            0 if !self.objectives.insert(name.into()) => {
                Err(crash(format!("IllegalArgumentException: An objective with the name '{name}' already exists!")))
            }
            1 if !self.objectives.remove(name) => Err(crash(format!("NullPointerException: no objective {name:?} to remove"))),
            2 if !self.objectives.contains(name) => Err(crash(format!("NullPointerException: no objective {name:?} to change"))),
            _ => Ok(()),
        }
    }

    /// 3C (`handleUpdateScore`): nothing in it throws, unknown objectives neither.
    pub(crate) fn score(&mut self, payload: &[u8]) -> Result<(), Trouble> {
        let mut reader = Reader::new(payload);
        reader.string(16)?;
        if reader.i8()? != 1 {
            reader.string(16)?;
            reader.i32()?;
        }
        Ok(reader.finish()?)
    }

    /// 3D (`handleDisplayScoreboard`).
    pub(crate) fn display(&mut self, payload: &[u8]) -> Result<(), Trouble> {
        let mut reader = Reader::new(payload);
        let slot = reader.i8()?;
        reader.string(16)?;
        reader.finish()?;
        if (0..3).contains(&slot) { Ok(()) } else { Err(crash(format!("ArrayIndexOutOfBoundsException: {slot}"))) }
    }

    /// 3E (`handleTeams`).
    pub(crate) fn team(&mut self, payload: &[u8]) -> Result<(), Trouble> {
        let mut reader = Reader::new(payload);
        let name = reader.string(16)?.to_owned();
        let mode = reader.i8()?;
        if matches!(mode, 0 | 2) {
            for limit in [32, 16, 16] {
                reader.string(limit)?;
            }
            reader.i8()?;
        }
        let mut players = Vec::new();
        if matches!(mode, 0 | 3 | 4) {
            for _ in 0..reader.i16()? {
                players.push(reader.string(40)?.to_owned());
            }
        }
        reader.finish()?;
        if mode == 0 && self.teams.insert(name.clone(), BTreeSet::new()).is_some() {
            return Err(crash(format!("IllegalArgumentException: A team with the name '{name}' already exists!")));
        }
        if matches!(mode, 1 | 2) && !self.teams.contains_key(&name) {
            return Err(crash(format!("NullPointerException: no team {name:?}")));
        }
        match mode {
            // Unknown teams are passed over.
            0 | 3 if self.teams.contains_key(&name) => players.into_iter().for_each(|player| self.join(player, &name)),
            4 => {
                for player in players {
                    if self.members.get(&player) != Some(&name) {
                        return Err(crash(format!("IllegalStateException: Player is either on another team or not on any team: {player}")));
                    }
                    self.leave(&player);
                }
            }
            1 => {
                for player in self.teams.remove(&name).unwrap_or_default() {
                    self.members.remove(&player);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn join(&mut self, player: String, team: &str) {
        self.leave(&player);
        if let Some(players) = self.teams.get_mut(team) {
            players.insert(player.clone());
        }
        self.members.insert(player, team.to_owned());
    }

    fn leave(&mut self, player: &str) {
        if let Some(team) = self.members.remove(player)
            && let Some(players) = self.teams.get_mut(&team)
        {
            players.remove(player);
        }
    }
}
