//! Versions as data.
