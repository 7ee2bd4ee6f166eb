//! Certificates of the site: the operator's, an authority's, or one that the server signs itself.
//!
//! A browser accepts a self-signed certificate for WebTransport if the page names its hash, and if it is an ECDSA one that
//! is valid for two weeks at most (W3C WebTransport, section "serverCertificateHashes"). So the server makes a new one
//! before that.

use super::acme::{ACME_TLS, Acme, Challenges, Resolver};
use super::client::WebConfig;
use crate::clock::wall_ns;
use crate::serve::tls::{self, TlsError, unusable};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use std::sync::Arc;
use std::time::Duration;

/// Time for which a self-signed certificate is valid, and the time after which it is replaced.
const VALID: Duration = Duration::from_secs(12 * 86_400);
const RENEWED_AFTER_NS: i64 = 8 * 86_400_000_000_000;
/// Difference of the clocks of server and browser that is tolerated.
const SLACK: Duration = Duration::from_secs(86_400);

/// Origin of the certificate.
pub(super) enum Source {
    /// Plain HTTP at a loopback address; WebTransport has a self-signed certificate.
    Plain,
    SelfSigned,
    Own(tls::Identity),
    /// Authority's; self-signed until there is one.
    Acme(Arc<Acme>),
}

/// TLS of the site and of WebTransport.
pub(super) struct Identity {
    /// None for plain HTTP.
    pub site: Option<Arc<rustls::ServerConfig>>,
    pub quic: rustls::ServerConfig,
    /// SHA-256 of the certificate, if browsers have to be told it.
    pub hash: Option<[u8; 32]>,
    /// UNIX time from which another one is due, ns.
    pub until_ns: i64,
}

impl Source {
    /// Authority or files, if the operator names any; without them, only a loopback address speaks plain HTTP.
    pub(super) fn of(config: &WebConfig) -> Result<Source, TlsError> {
        let loopback = config.listen.ip().is_loopback();
        if let Some(acme) = &config.acme {
            return Ok(Source::Acme(Arc::new(Acme::new(acme))));
        }
        match &config.certificate {
            Some((certificate, key)) => Ok(Source::Own(tls::own(certificate, key)?)),
            None if loopback => Ok(Source::Plain),
            None => Ok(Source::SelfSigned),
        }
    }

    /// Certificate for now.
    pub(super) fn identity(&self) -> Result<Identity, TlsError> {
        let given = match self {
            Source::Own((chain, key)) => Some(((chain.clone(), key.clone_key()), i64::MAX)),
            Source::Acme(acme) => acme.identity(),
            Source::Plain | Source::SelfSigned => None,
        };
        let is_given = given.is_some();
        let ((chain, key), until_ns) = match given {
            Some(given) => given,
            None => (self_signed()?, wall_ns().saturating_add(RENEWED_AFTER_NS)),
        };
        let hash = match (is_given, chain.first()) {
            (true, _) | (_, None) => None,
            (false, Some(c)) => wtransport::tls::Certificate::from_der(c.to_vec())
                .ok()
                .map(|c| *c.hash().as_ref()),
        };
        let provider = Arc::new(ring::default_provider());
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(unusable)?;
        let (own, challenges) = (Arc::new(certified), self.challenges());
        let config = |versions: &[&'static rustls::SupportedProtocolVersion]| {
            let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
                .with_protocol_versions(versions)
                .map_err(unusable)?
                .with_no_client_auth();
            Ok::<_, TlsError>(builder.with_cert_resolver(Arc::new(Resolver {
                own: own.clone(),
                challenges: challenges.clone(),
            })))
        };
        let mut quic = config(&[&TLS13])?;
        quic.alpn_protocols = vec![wtransport::proto::WEBTRANSPORT_ALPN.to_vec()];
        let site = match self {
            Source::Plain => None,
            _ => {
                let mut site = config(&[&TLS13, &TLS12])?;
                site.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
                if let Source::Acme(_) = self {
                    site.alpn_protocols.push(ACME_TLS.to_vec());
                }
                Some(Arc::new(site))
            }
        };
        Ok(Identity {
            site,
            quic,
            hash,
            until_ns,
        })
    }

    fn challenges(&self) -> Arc<Challenges> {
        match self {
            Source::Acme(acme) => acme.challenges.clone(),
            _ => Arc::default(),
        }
    }
}

fn self_signed() -> Result<tls::Identity, TlsError> {
    let key = KeyPair::generate().map_err(unusable)?;
    let names = ["localhost", "tailback.invalid", "127.0.0.1", "::1"].map(str::to_owned);
    let mut params = CertificateParams::new(names).map_err(unusable)?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = epoch + Duration::from_nanos(wall_ns().max(0).unsigned_abs());
    params.not_before = now - SLACK;
    params.not_after = now - SLACK + VALID;
    let certificate = params.self_signed(&key).map_err(unusable)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((vec![certificate.der().clone()], key.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::web::WebGuests;

    #[test]
    fn only_loopback_speaks_plain_http_and_every_own_certificate_has_a_new_hash() {
        let at = |ip: [u8; 4]| WebConfig {
            listen: (ip, 0).into(),
            certificate: None,
            acme: None,
            files: Arc::default(),
            keep: None,
            guests: WebGuests::default(),
        };
        let plain = Source::of(&at([127, 0, 0, 1])).expect("no files");
        let made = plain.identity().expect("a certificate");
        assert!(made.site.is_none() && made.hash.is_some());
        let public = Source::of(&at([0; 4])).expect("no files");
        let (one, two) = (public.identity(), public.identity());
        let (one, two) = (one.expect("made"), two.expect("made"));
        assert!(one.site.is_some() && one.hash != two.hash);
        assert!(VALID < Duration::from_secs(14 * 86_400));
        let left = VALID - SLACK;
        assert!(i128::from(RENEWED_AFTER_NS) < left.as_nanos() as i128);
    }
}
