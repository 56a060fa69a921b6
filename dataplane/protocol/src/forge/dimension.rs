//! Dimensions of modded worlds, whose numbers may be too large for Join Game's byte.

use crate::play::JoinGame;
use crate::wire::{Reader, WireError};

/// The first byte of a Dimension Register on [`super::FORGE`].
const REGISTER: u8 = 1;

/// Says to the client, on [`super::FORGE`], that there is a dimension. It comes during the handshake, and must reach the
/// client before it is put into that dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DimensionRegister {
    /// The dimension's number.
    pub dimension: i32,
    /// The kind of world that it is.
    pub provider: i32,
}

impl DimensionRegister {
    /// Reads a message on [`super::FORGE`]; `None` if it is another one.
    ///
    /// # Errors
    /// If it is cut short.
    pub fn read(data: &[u8]) -> Result<Option<DimensionRegister>, WireError> {
        let mut reader = Reader::new(data);
        if reader.u8()? != REGISTER {
            return Ok(None);
        }
        Ok(Some(DimensionRegister { dimension: reader.i32()?, provider: reader.i32()? }))
    }

    /// Appends the message.
    pub fn write(&self, data: &mut Vec<u8>) {
        data.push(REGISTER);
        data.extend_from_slice(&self.dimension.to_be_bytes());
        data.extend_from_slice(&self.provider.to_be_bytes());
    }
}

/// The dimension that `join` means, when its server's Server Hello said `override_dimension`: that one, if Join Game's byte is
/// its last.
pub fn real(join: &JoinGame, override_dimension: i32) -> i32 {
    let byte = join.dimension as i8;
    if override_dimension as i8 == byte { override_dimension } else { byte.into() }
}

/// The dimension that a Forge client goes to on `join`, when the last Server Hello it was told said `override_dimension`: that
/// one, whatever Join Game says, if it is not 0.
pub fn client_goes_to(join: &JoinGame, override_dimension: i32) -> i32 {
    if override_dimension != 0 { override_dimension } else { (join.dimension as i8).into() }
}

/// Whether Join Game alone cannot say the dimension `real` with its byte.
pub fn needs_override(real: i32) -> bool {
    i8::try_from(real).is_err()
}

/// Whether every client knows this dimension.
pub(super) fn is_vanilla(dimension: i32) -> bool {
    (-1..=1).contains(&dimension)
}
