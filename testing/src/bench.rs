//! What the benchmarks are made of: a load that checks every echo, the backend that echoes, the processes around them,
//! and what is measured of them. `testing/benchmarks/README.md` says how to run and read them.

pub mod cipher;
pub mod delay;
pub mod echo;
pub mod frames;
pub mod glist;
pub mod idle;
mod incoming;
pub mod kernels;
pub mod load;
pub mod login;
pub mod logins;
pub mod measure;
pub mod memory;
pub mod options;
pub mod path;
pub mod peers;
pub mod permissions;
mod player;
pub mod probe;
pub mod processes;
pub mod relay;
pub mod replay;
pub mod report;
pub mod role;
mod solo;
pub mod stage;
pub mod target;
pub mod ticks;
pub mod trace;
