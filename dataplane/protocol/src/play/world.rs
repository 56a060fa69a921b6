//! Just enough of a world for a client to stand in: for the limbo and the probe.

use crate::frame;
use crate::version::{Version, World};
use crate::wire::{Reader, WireError};

/// Where a player stands and looks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Position {
    /// East.
    pub x: f64,
    /// Up, at the feet.
    pub y: f64,
    /// South.
    pub z: f64,
    /// Degrees, clockwise from south.
    pub yaw: f32,
    /// Degrees, down from the horizon.
    pub pitch: f32,
    /// Whether the player stands on something.
    pub on_ground: bool,
}

/// How far above the feet the eyes are. A clientbound position's y is the eyes'.
const EYES: f64 = 1.62;

/// Appends Spawn Position: the block that compasses point to.
pub fn put_spawn_position(out: &mut Vec<u8>, version: &Version, x: i32, y: i32, z: i32) {
    frame::put(out, version.world_id(World::SpawnPosition).into(), |out| {
        for coordinate in [x, y, z] {
            out.extend_from_slice(&coordinate.to_be_bytes());
        }
    });
}

/// Appends a clientbound Player Position And Look, which takes a client off "Downloading terrain".
pub fn put_position_and_look(out: &mut Vec<u8>, version: &Version, position: Position) {
    frame::put(out, version.world_id(World::PositionAndLook).into(), |out| {
        put_doubles(out, &[position.x, position.y + EYES, position.z]);
        put_look(out, position);
    });
}

/// Reads a clientbound Player Position And Look.
pub fn read_position_and_look(payload: &[u8]) -> Result<Position, WireError> {
    let mut reader = Reader::new(payload);
    let (x, eyes, z) = (reader.f64()?, reader.f64()?, reader.f64()?);
    let position = read_look(&mut reader, Position { x, y: eyes - EYES, z, ..Position::default() })?;
    reader.finish()?;
    Ok(position)
}

/// Appends a serverbound Player Position And Look: feet, then eyes on the wire.
pub fn put_position_and_look_serverbound(out: &mut Vec<u8>, version: &Version, position: Position) {
    frame::put(out, version.world_id(World::PositionAndLookServerbound).into(), |out| {
        put_doubles(out, &[position.x, position.y, position.y + EYES, position.z]);
        put_look(out, position);
    });
}

/// Reads a serverbound Player Position And Look.
pub fn read_position_and_look_serverbound(payload: &[u8]) -> Result<Position, WireError> {
    let mut reader = Reader::new(payload);
    let (x, y, _eyes, z) = (reader.f64()?, reader.f64()?, reader.f64()?, reader.f64()?);
    let position = read_look(&mut reader, Position { x, y, z, ..Position::default() })?;
    reader.finish()?;
    Ok(position)
}

fn put_doubles(out: &mut Vec<u8>, values: &[f64]) {
    for value in values {
        out.extend_from_slice(&value.to_be_bytes());
    }
}

fn put_look(out: &mut Vec<u8>, position: Position) {
    out.extend_from_slice(&position.yaw.to_be_bytes());
    out.extend_from_slice(&position.pitch.to_be_bytes());
    out.push(position.on_ground.into());
}

fn read_look(reader: &mut Reader<'_>, position: Position) -> Result<Position, WireError> {
    Ok(Position { yaw: reader.f32()?, pitch: reader.f32()?, on_ground: reader.bool()?, ..position })
}

/// Appends Player Abilities. Flags: 1 invulnerable, 2 flying, 4 may fly, 8 creative. A client's defaults are 0.05 and 0.1.
pub fn put_abilities(out: &mut Vec<u8>, version: &Version, flags: u8, flying_speed: f32, walking_speed: f32) {
    frame::put(out, version.world_id(World::Abilities).into(), |out| {
        out.push(flags);
        out.extend_from_slice(&flying_speed.to_be_bytes());
        out.extend_from_slice(&walking_speed.to_be_bytes());
    });
}

/// Appends a whole column (with biomes) of which the sections in `sections` (bit 0 the lowest) are there. `compressed` is the
/// sections' data in zlib's format.
pub fn put_map_chunk(out: &mut Vec<u8>, version: &Version, x: i32, z: i32, sections: u16, compressed: &[u8]) {
    frame::put(out, version.world_id(World::MapChunk).into(), |out| {
        out.extend_from_slice(&x.to_be_bytes());
        out.extend_from_slice(&z.to_be_bytes());
        out.push(1);
        out.extend_from_slice(&sections.to_be_bytes());
        out.extend_from_slice(&0u16.to_be_bytes());
        out.extend_from_slice(&(compressed.len() as i32).to_be_bytes());
        out.extend_from_slice(compressed);
    });
}

/// Appends a column that is one layer of stone at y = 64 and air above and below; `sky` must say whether the dimension has a
/// sky (the Overworld only), for the data of one without has no sky light.
pub fn put_platform_chunk(out: &mut Vec<u8>, version: &Version, x: i32, z: i32, sky: bool) {
    const SECTION: usize = 4;
    const STONE: u8 = 1;
    const PLAINS: u8 = 1;
    let mut data = vec![0; 4_096];
    data[..256].fill(STONE);
    // Metadata, then block light: half a byte a block.
    data.resize(data.len() + 2 * 2_048, 0);
    if sky {
        data.resize(data.len() + 2_048, 0xff);
    }
    data.resize(data.len() + 256, PLAINS);
    put_map_chunk(out, version, x, z, 1 << SECTION, &stored(&data));
}

/// `data` in zlib's format (RFC 1950), in stored blocks (RFC 1951, 3.2.4): no compressor is needed for the little we send.
fn stored(data: &[u8]) -> Vec<u8> {
    const MAX_BLOCK: usize = 0xffff;
    let mut out = vec![0x78, 0x01];
    let last = data.len().saturating_sub(1) / MAX_BLOCK;
    for (index, block) in data.chunks(MAX_BLOCK).enumerate() {
        let length = block.len() as u16;
        out.push(u8::from(index == last));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    let (mut low, mut high) = (1u32, 0u32);
    for &byte in data {
        low = (low + u32::from(byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    out.extend_from_slice(&(high << 16 | low).to_be_bytes());
    out
}
