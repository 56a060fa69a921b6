//! Whether the figures of this machine can be compared with others'.

use anyhow::ensure;

/// # Errors
/// Says what the machine lacks.
pub(crate) fn check() -> anyhow::Result<()> {
    ensure!(cfg!(target_arch = "x86_64"), "instructions are counted on x86-64 only: this machine is {}", std::env::consts::ARCH);
    #[cfg(target_arch = "x86_64")]
    {
        let features = [
            ("AES-NI", std::arch::is_x86_feature_detected!("aes")),
            ("AVX", std::arch::is_x86_feature_detected!("avx")),
            ("AVX2", std::arch::is_x86_feature_detected!("avx2")),
        ];
        let missing: Vec<_> = features.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
        ensure!(
            missing.is_empty(),
            "this CPU has no {}: the cipher's figures are of its AES-NI kernel and others of code for AVX2, so run the gate on a machine \
             that has them",
            missing.join(", no "),
        );
    }
    Ok(())
}
