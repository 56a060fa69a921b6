//! What the session server says of an account.

use std::sync::Arc;

use moonbridge_protocol::forwarding::Property;
use moonbridge_protocol::name::valid_name;
use serde::Deserialize;
use uuid::Uuid;

use super::Refusal;

/// The most properties of a profile. There is one, `textures`, today.
const MAX_PROPERTIES: usize = 16;

/// The most bytes of all properties together: a signed skin has about 1.5 KiB, and all of it goes into a backend's handshake.
const MAX_PROPERTY_BYTES: usize = 32 * 1024;

/// Whose account it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Never changes, whatever the account is called.
    pub(crate) uuid: Uuid,
    /// As the account's owner spells it.
    pub(crate) name: String,
    /// The skin, signed.
    pub(crate) properties: Arc<[Property]>,
}

/// The answer's JSON. What else is in it does not matter.
#[derive(Deserialize)]
struct Answer {
    id: String,
    name: String,
    #[serde(default)]
    properties: Vec<AnswerProperty>,
}

#[derive(Deserialize)]
struct AnswerProperty {
    name: String,
    value: String,
    signature: Option<String>,
}

impl Profile {
    /// Reads the answer for a player who came as `name`.
    pub(super) fn read(answer: &[u8], name: &str) -> Result<Profile, Refusal> {
        let garbage = |what: &str| Refusal::Garbage(what.to_owned());
        // serde's own words would have parts of the answer in them.
        let answer: Answer =
            serde_json::from_slice(answer).map_err(|error| garbage(if error.is_data() { "other JSON" } else { "no JSON" }))?;
        let uuid = Uuid::try_parse(&answer.id).ok().filter(|uuid| !uuid.is_nil()).ok_or_else(|| garbage("its id is no UUID"))?;
        valid_name(&answer.name).map_err(|_| garbage("its name is none"))?;
        let bytes = answer.properties.iter().map(AnswerProperty::bytes).sum::<usize>();
        if answer.properties.len() > MAX_PROPERTIES || bytes > MAX_PROPERTY_BYTES {
            return Err(garbage("too many properties"));
        }
        if !answer.name.eq_ignore_ascii_case(name) {
            return Err(Refusal::OtherName(answer.name));
        }
        let properties = answer.properties.into_iter().map(Property::from).collect();
        Ok(Profile { uuid, name: answer.name, properties })
    }
}

impl AnswerProperty {
    fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.signature.as_ref().map_or(0, String::len)
    }
}

impl From<AnswerProperty> for Property {
    fn from(AnswerProperty { name, value, signature }: AnswerProperty) -> Property {
        Property { name, value, signature }
    }
}
