//! An account: what Mojang knows of a player.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// A signed property of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// `textures`.
    pub name: String,
    /// Base64.
    pub value: String,
    /// Base64.
    pub signature: Option<String>,
}

/// A registered account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// As its owner spells it.
    pub name: String,
    /// Of version 4, as real ones are.
    pub uuid: Uuid,
    /// What the launcher gives to the client.
    pub access_token: String,
    /// The skin.
    pub properties: Vec<Property>,
}

impl Account {
    /// One with random contents of the real sizes: nothing but Mojang's key could sign, and nobody in between looks.
    pub(super) fn new(name: &str) -> Account {
        let uuid = Uuid::new_v4();
        let skin = format!("http://textures.minecraft.net/texture/{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let textures = json!({
            "timestamp": 1_417_392_000_000_u64,
            "profileId": uuid.simple().to_string(),
            "profileName": name,
            "signatureRequired": true,
            "textures": { "SKIN": { "url": skin, "metadata": { "model": "slim" } } },
        });
        let textures = Property {
            name: "textures".to_owned(),
            value: BASE64_STANDARD.encode(serde_json::to_string_pretty(&textures).expect("plain JSON")),
            signature: Some(BASE64_STANDARD.encode(random::<512>())),
        };
        Account { name: name.to_owned(), uuid, access_token: BASE64_STANDARD.encode(random::<96>()), properties: vec![textures] }
    }

    /// The UUID as Mojang writes it: 32 digits.
    pub fn undashed(&self) -> String {
        self.uuid.simple().to_string()
    }

    /// The answer to `hasJoined`.
    pub fn profile(&self) -> Value {
        json!({ "id": self.undashed(), "name": self.name, "properties": self.properties, "profileActions": [] })
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}
