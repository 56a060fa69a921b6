//! TLS of the gRPC listeners and clients, from PEM files. System roots are never used: a control plane has its own authority.

use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};

use crate::config::{ConfigError, Fields};

/// A longer file is no certificate.
const MAX_FILE: u64 = 1 << 20;

/// What PEM blocks are called.
const CERTIFICATE: &str = "CERTIFICATE";
const KEY: &str = "PRIVATE KEY";

/// A listener's TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// PEM file: the listener's certificate, then those between it and the authority.
    pub cert: PathBuf,
    /// PEM file: the certificate's private key.
    pub key: PathBuf,
    /// PEM file: the authority that every client's certificate must come from. `None` asks for no client certificate.
    pub client_ca: Option<PathBuf>,
}

/// A client's TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// PEM file: the authority that the server's certificate must come from. Needed.
    pub ca: Option<PathBuf>,
    /// PEM file: the client's own certificate, where the server asks for one. Needs `key`.
    pub cert: Option<PathBuf>,
    /// PEM file: the certificate's private key.
    pub key: Option<PathBuf>,
    /// The name to look for in the server's certificate, if not the host of the URL.
    pub domain: Option<String>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{what} {}: {reason}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// `ca` is not given.
    #[error("https needs the authority of the server's certificate: give ca, a PEM file")]
    NoAuthority,
    /// Only one of `cert` and `key` is given.
    #[error("a client certificate needs both cert and key")]
    HalfIdentity,
    /// The files can be read, but do not fit together or do not hold what they should.
    #[error("certificate {} and its key cannot be used: {reason}", cert.display())]
    Unusable {
        /// The certificate's (or, without one, the authority's) file.
        cert: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl ServerTls {
    /// Reads `cert`, `key` and `client_ca` of a `tls` table: `fields.table("tls", ServerTls::read)`.
    pub fn read(fields: &mut Fields) -> Self {
        fields.require("cert", "the PEM file of the listener's certificate");
        fields.require("key", "the PEM file of the certificate's private key");
        Self {
            cert: fields.path("cert").unwrap_or_default(),
            key: fields.path("key").unwrap_or_default(),
            client_ca: fields.path("client_ca"),
        }
    }

    /// What is wrong with the files, each mistake by its field below `table` ("tls").
    pub fn check_files(&self, table: &str) -> Vec<ConfigError> {
        let files =
            [("cert", Some(&self.cert), CERTIFICATE), ("key", Some(&self.key), KEY), ("client_ca", self.client_ca.as_ref(), CERTIFICATE)];
        check_files(table, files, || self.load().err())
    }

    /// Reads the files and checks that they fit together.
    ///
    /// # Errors
    /// A file cannot be read or does not hold what it should, or the key is not the certificate's.
    pub fn load(&self) -> Result<ServerTlsConfig, TlsError> {
        let mut tls = ServerTlsConfig::new().identity(identity(&self.cert, &self.key)?);
        if let Some(path) = &self.client_ca {
            tls = tls.client_ca_root(Certificate::from_pem(read_pem("client_ca", path, CERTIFICATE)?));
        }
        match Server::builder().tls_config(tls.clone()) {
            Ok(_) => Ok(tls),
            Err(error) => Err(TlsError::Unusable { cert: self.cert.clone(), reason: reason(&error) }),
        }
    }
}

impl ClientTls {
    /// Reads `ca`, `cert`, `key` and `domain` of a table: `fields.table("control_tls", ClientTls::read)`.
    pub fn read(fields: &mut Fields) -> Self {
        fields.require("ca", "the PEM file of the authority of the server's certificate");
        let (cert, key) = (fields.has("cert"), fields.has("key"));
        if cert != key {
            let missing = if cert { "key" } else { "cert" };
            fields.wrong(missing, "missing; a client certificate needs both cert and key");
        }
        Self { ca: fields.path("ca"), cert: fields.path("cert"), key: fields.path("key"), domain: fields.string("domain") }
    }

    /// What is wrong with the files, each mistake by its field below `table` ("control_tls").
    pub fn check_files(&self, table: &str) -> Vec<ConfigError> {
        let files = [("ca", self.ca.as_ref(), CERTIFICATE), ("cert", self.cert.as_ref(), CERTIFICATE), ("key", self.key.as_ref(), KEY)];
        check_files(table, files, || self.load().err())
    }

    /// Reads the files and checks that they fit together.
    ///
    /// # Errors
    /// No authority, half an identity, a file that cannot be read or does not hold what it should, a key that is not the
    /// certificate's.
    pub fn load(&self) -> Result<ClientTlsConfig, TlsError> {
        let ca = self.ca.as_deref().ok_or(TlsError::NoAuthority)?;
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read_pem("ca", ca, CERTIFICATE)?));
        tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => tls.identity(identity(cert, key)?),
            (None, None) => tls,
            _ => return Err(TlsError::HalfIdentity),
        };
        if let Some(domain) = &self.domain {
            tls = tls.domain_name(domain);
        }
        match Endpoint::from_static("https://localhost").tls_config(tls.clone()) {
            Ok(_) => Ok(tls),
            Err(error) => Err(TlsError::Unusable { cert: self.cert.as_deref().unwrap_or(ca).to_owned(), reason: reason(&error) }),
        }
    }
}

/// Each file by itself; if all are what they should be, all together.
fn check_files<'a>(
    table: &str,
    files: impl IntoIterator<Item = (&'static str, Option<&'a PathBuf>, &'static str)>,
    load: impl FnOnce() -> Option<TlsError>,
) -> Vec<ConfigError> {
    let mut mistakes = Vec::new();
    for (name, path, kind) in files {
        if let Some(TlsError::File { path, reason, .. }) = path.and_then(|path| read_pem(name, path, kind).err()) {
            mistakes.push(ConfigError { field: format!("{table}.{name}"), problem: format!("{} {reason}", path.display()) });
        }
    }
    if mistakes.is_empty() {
        let problem = load().map(|error| ConfigError { field: table.to_owned(), problem: error.to_string() });
        mistakes.extend(problem);
    }
    mistakes
}

fn identity(cert: &Path, key: &Path) -> Result<Identity, TlsError> {
    Ok(Identity::from_pem(read_pem("cert", cert, CERTIFICATE)?, read_pem("key", key, KEY)?))
}

/// A PEM file, checked to hold a block of the kind it is for: rustls passes over others in silence.
fn read_pem(what: &'static str, path: &Path, kind: &str) -> Result<String, TlsError> {
    let wrong = |reason: String| TlsError::File { what, path: path.to_owned(), reason };
    let size = std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?.len();
    if size > MAX_FILE {
        return Err(wrong(format!("expected at most {MAX_FILE} bytes, got {size}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let found = text.lines().any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{kind}-----")));
    if found { Ok(text) } else { Err(wrong(format!("holds no PEM block \"{kind}\""))) }
}

/// An error and what caused it: tonic's own text is only "transport error".
fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}
