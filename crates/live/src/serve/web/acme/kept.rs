//! Files of the account and of the certificate, for the server alone to read.

use super::config::SiteName;
use super::error::AcmeError;
use crate::serve::tls::{self, Identity};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::Path;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

const SECOND_NS: i64 = 1_000_000_000;
const ACCOUNT: &str = "account.json";
/// Key and chain in one file: they never belong to different certificates.
const CERTIFICATE: &str = "site.pem";

/// Account at an authority.
#[derive(Serialize, Deserialize)]
pub(super) struct Account {
    /// Directory of the authority.
    pub authority: String,
    pub credentials: instant_acme::AccountCredentials,
}

/// Certificate with its key.
pub(super) struct Certificate {
    pub identity: Identity,
    /// Names and addresses that it is for.
    names: Vec<String>,
    /// UNIX times between which it is valid, ns.
    from_ns: i64,
    pub until_ns: i64,
}

impl Certificate {
    /// Reads a key and a chain, PEM.
    ///
    /// # Errors
    /// A text without a certificate, or a key that does not fit it.
    pub fn read(key: &[u8], chain: &[u8]) -> Result<Certificate, AcmeError> {
        let unusable = |e: &dyn std::fmt::Display| AcmeError::Unusable(e.to_string());
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| unusable(&e))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| unusable(&e))?;
        let first = chain.first().ok_or_else(|| unusable(&"it is empty"))?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &ring::default_provider())
            .map_err(|e| unusable(&e))?;
        let (_, read) = parse_x509_certificate(first).map_err(|e| unusable(&e))?;
        let names = match read.subject_alternative_name() {
            Ok(Some(names)) => names.value.general_names.iter().filter_map(text).collect(),
            _ => Vec::new(),
        };
        let ns = |seconds: i64| seconds.saturating_mul(SECOND_NS);
        let (from_ns, until_ns) = (
            ns(read.validity().not_before.timestamp()),
            ns(read.validity().not_after.timestamp()),
        );
        Ok(Certificate {
            identity: (chain, key),
            names,
            from_ns,
            until_ns,
        })
    }

    /// True if it is for each of these names.
    pub fn is_for(&self, names: &[SiteName]) -> bool {
        names.iter().all(|n| self.names.contains(&n.to_string()))
    }

    /// UNIX time at which the next one is due, ns.
    pub fn renewed_at(&self) -> i64 {
        let life = self.until_ns.saturating_sub(self.from_ns);
        self.from_ns.saturating_add(life / 3 * 2)
    }
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(name.to_lowercase()),
        GeneralName::IPAddress(octets) => {
            let four = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            let ip = four.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
            ip.ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

/// Certificate that was kept; none if there is none that can be used.
pub(super) fn certificate(directory: &Path) -> Option<Certificate> {
    let text = std::fs::read(directory.join(CERTIFICATE)).ok()?;
    Certificate::read(&text, &text).ok()
}

/// Keeps a certificate with its key.
pub(super) fn keep_certificate(directory: &Path, key: &str, chain: &str) -> Result<(), AcmeError> {
    write(directory, CERTIFICATE, &format!("{key}{chain}"))
}

/// Account that was kept for this authority.
pub(super) fn account(directory: &Path, authority: &str) -> Option<Account> {
    let text = std::fs::read(directory.join(ACCOUNT)).ok()?;
    let account: Account = serde_json::from_slice(&text).ok()?;
    (account.authority == authority).then_some(account)
}

/// Keeps an account.
pub(super) fn keep_account(directory: &Path, account: &Account) -> Result<(), AcmeError> {
    let text = serde_json::to_string(account).map_err(instant_acme::Error::from)?;
    write(directory, ACCOUNT, &text)
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), AcmeError> {
    tls::replace(directory, name, text.as_bytes()).map_err(|source| AcmeError::File {
        path: directory.join(name),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    #[test]
    fn a_certificate_is_read_with_its_names_and_its_time_and_only_with_its_own_key() {
        let names = ["a.example", "B.example", "192.0.2.1", "2001:db8::1"];
        let mut params = CertificateParams::new(names.map(str::to_owned)).expect("names");
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let (key, other) = (
            KeyPair::generate().expect("a key"),
            KeyPair::generate().expect("a key"),
        );
        let chain = params.self_signed(&key).expect("signed").pem();
        let read =
            |key: &KeyPair| Certificate::read(key.serialize_pem().as_bytes(), chain.as_bytes());
        let found = read(&key).expect("a certificate");
        let of = |names: &[&str]| {
            let names: Vec<SiteName> = names.iter().map(|n| n.parse().expect("a name")).collect();
            found.is_for(&names)
        };
        assert!(of(&names) && of(&["b.example"]) && !of(&["a.example", "c.example"]));
        // 90 days, of which 60 pass before the next one: 2026-03-02.
        assert_eq!(found.renewed_at(), 1_772_409_600 * SECOND_NS);
        assert!(read(&other).is_err());
        assert!(Certificate::read(b"", chain.as_bytes()).is_err());
        assert!(Certificate::read(key.serialize_pem().as_bytes(), b"").is_err());
    }
}
