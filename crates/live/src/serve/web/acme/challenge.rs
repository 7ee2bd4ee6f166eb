//! Answers to the challenge tls-alpn-01: a certificate that holds the digest of the authority's question.

use super::config::SiteName;
use super::error::AcmeError;
use crate::serve::sync::lock;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Protocol of the challenge (RFC 8737, section 3).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// Certificates of the challenges that are open, by the name in the handshake.
#[derive(Debug, Default)]
pub(crate) struct Challenges(Mutex<BTreeMap<String, Arc<CertifiedKey>>>);

impl Challenges {
    /// Opens a challenge.
    ///
    /// # Errors
    /// A name that no certificate can hold.
    pub fn open(&self, name: &SiteName, digest: &[u8]) -> Result<(), AcmeError> {
        let unusable = |e: rcgen::Error| AcmeError::Unusable(e.to_string());
        let key = KeyPair::generate().map_err(unusable)?;
        let mut params = CertificateParams::new(vec![name.to_string()]).map_err(unusable)?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let certificate = params.self_signed(&key).map_err(unusable)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let key =
            ring::sign::any_supported_type(&key).map_err(|e| AcmeError::Unusable(e.to_string()))?;
        let held = CertifiedKey::new(vec![certificate.der().clone()], key);
        lock(&self.0).insert(in_handshake(name), Arc::new(held));
        Ok(())
    }

    /// Ends all.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Name in the handshake. RFC 8738, section 6: an address has the name of its reverse zone.
fn in_handshake(name: &SiteName) -> String {
    match name.ip() {
        None => name.to_string(),
        Some(IpAddr::V4(ip)) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Some(IpAddr::V6(ip)) => {
            let nibbles = ip.octets().into_iter().rev();
            let nibbles = nibbles.flat_map(|o| [o & 15, o >> 4]);
            let labels: String = nibbles.map(|n| format!("{n:x}.")).collect();
            format!("{labels}ip6.arpa")
        }
    }
}

/// Choice of the certificate in a handshake: that of an open challenge for an authority, else the site's.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub own: Arc<CertifiedKey>,
    pub challenges: Arc<Challenges>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asks = (hello.alpn()).is_some_and(|mut all| all.any(|protocol| protocol == ACME_TLS));
        if !asks {
            return Some(self.own.clone());
        }
        let name = hello.server_name()?.to_lowercase();
        lock(&self.challenges.0).get(&name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_its_reverse_zone() {
        let name = |text: &str| in_handshake(&text.parse().expect("a name"));
        assert_eq!(name("test.example"), "test.example");
        assert_eq!(name("203.0.113.5"), "5.113.0.203.in-addr.arpa");
        // The example of RFC 3596, section 2.5.
        assert_eq!(
            name("4321:0:1:2:3:4:567:89ab"),
            "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa"
        );
    }
}
