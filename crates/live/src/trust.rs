//! TLS towards servers of the web: the authorities that are trusted.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fault of the file that names a further authority, or of the settings.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// File without certificates that can be read.
    #[error("cannot read certificates from {}: {why}", .file.display())]
    Certificates {
        /// The file.
        file: PathBuf,
        /// Reason.
        why: String,
    },
    /// Settings that TLS does not take.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Settings of a client: the authorities of the web, and those of the file `ca`, PEM.
///
/// # Errors
/// A file that holds no certificate.
pub fn client(ca: Option<&Path>, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(file) = ca {
        let wrong = |why: String| TrustError::Certificates {
            file: file.to_owned(),
            why,
        };
        let all = CertificateDer::pem_file_iter(file).map_err(|e| wrong(e.to_string()))?;
        let mut added = 0;
        for certificate in all {
            let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
            roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
            added += 1;
        }
        if added == 0 {
            return Err(wrong("the file holds no certificate in PEM form".into()));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    Ok(Arc::new(config))
}
