//! The Minecraft wire format as a session proxy needs it. Pure: bytes and values in, bytes and values out; no I/O, no clock.
//!
//! Two layers. [`frame`], [`walk`] and [`wire`] know how bytes are cut into frames and fields; the other modules know what a
//! few packets mean. A proxy forwards what it does not know, so nothing here tries to be complete: [`version`] names the
//! packet kinds a session cares about and is the one place where packet numbers stand.

pub mod frame;
pub mod keep_alive;
pub mod version;
pub mod walk;
pub mod wire;
