//! Certificates for the TLS tests: a CA, and what it signs, as PEM files in a folder.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

/// A CA whose certificates are for 127.0.0.1 and localhost.
pub struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Its own certificate.
    pub ca: PathBuf,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate's file.
    pub cert: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}

impl Authority {
    /// Makes one; its files are `NAME.pem` and `NAME.key` of this folder.
    pub fn new(folder: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate of its own");
        let ca = folder.join(format!("{name}.pem"));
        let certificate: &Certificate = issuer.as_ref();
        write(&ca, &certificate.pem());
        Authority { folder: folder.to_owned(), issuer, ca }
    }

    /// Signs a certificate, good for servers and clients.
    pub fn sign(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signature");
        let identity = Identity { cert: self.folder.join(format!("{name}.pem")), key: self.folder.join(format!("{name}.key")) };
        write(&identity.cert, &certificate.pem());
        write(&identity.key, &key.serialize_pem());
        identity
    }
}

fn write(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
