//! The middle stage of a turn: what happens to a run between being walked and being written.

/// What a plaintext session does: nothing.
#[inline]
pub(super) fn identity(run: &mut [u8]) -> &[u8] {
    run
}
