//! Names of a site, and the authority that proves them.

use instant_acme::LetsEncrypt;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Certificates from an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeConfig {
    /// Directory of the authority.
    pub authority: Authority,
    /// Further authority that may have signed the directory's own certificate, a PEM file.
    pub ca: Option<PathBuf>,
    /// Address for the authority's messages, such as `mailto:anna@example.org`.
    pub contact: Option<String>,
    /// Names under which browsers reach the site.
    pub names: Vec<SiteName>,
    /// Directory for the account's key, and for the certificate with its key.
    pub state: PathBuf,
}

/// Address of an authority's directory: `letsencrypt`, `letsencrypt-staging`, or `https://…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Authority(String);

/// Name or address of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SiteName(String);

/// Words for the authorities that have a name.
const NAMED: [(&str, LetsEncrypt); 2] = [
    ("letsencrypt", LetsEncrypt::Production),
    ("letsencrypt-staging", LetsEncrypt::Staging),
];

impl Authority {
    /// Address of the directory.
    pub(super) fn url(&self) -> &str {
        let named = NAMED.iter().find(|(word, _)| *word == self.0);
        named.map_or(&self.0, |(_, of)| of.url())
    }
}

impl FromStr for Authority {
    type Err = String;

    fn from_str(text: &str) -> Result<Authority, String> {
        let known = NAMED.iter().any(|(word, _)| *word == text);
        let host = text
            .strip_prefix("https://")
            .and_then(|rest| rest.split('/').next());
        match known || host.is_some_and(|h| !h.is_empty()) {
            true => Ok(Authority(text.to_owned())),
            false => Err(format!(
                "\"{text}\" is no directory of an authority: write letsencrypt, letsencrypt-staging or https://HOST/PATH"
            )),
        }
    }
}

impl SiteName {
    /// The address, if the name is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }
}

impl FromStr for SiteName {
    type Err = String;

    fn from_str(text: &str) -> Result<SiteName, String> {
        let wrong =
            || format!("\"{text}\" is no name of a host, such as test.example.org, and no address");
        match ServerName::try_from(text) {
            Ok(ServerName::DnsName(name)) if name.as_ref().contains('.') => {
                Ok(SiteName(name.as_ref().to_lowercase()))
            }
            Ok(ServerName::IpAddress(_)) => Ok(SiteName(
                text.parse::<IpAddr>().map_err(|_| wrong())?.to_string(),
            )),
            _ => Err(wrong()),
        }
    }
}

/// Text form, which parses again.
macro_rules! as_text {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.0
            }
        }
        impl TryFrom<String> for $type {
            type Error = String;
            fn try_from(text: String) -> Result<$type, String> {
                text.parse()
            }
        }
    };
}
as_text!(Authority);
as_text!(SiteName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_authorities_are_read_and_nonsense_is_refused() {
        for good in ["test.example.org", "203.0.113.5", "2001:db8::1"] {
            assert_eq!(good.parse::<SiteName>().expect("a name").to_string(), good);
        }
        let spelt: SiteName = "Test.Example.org".parse().expect("a name");
        assert_eq!(spelt.to_string(), "test.example.org");
        for bad in [
            "",
            "localhost",
            "*.example.org",
            "a b.example",
            "http://a.example",
            "a..example",
        ] {
            assert!(bad.parse::<SiteName>().is_err(), "{bad}");
        }
        for good in [
            "letsencrypt",
            "letsencrypt-staging",
            "https://ca.example/dir",
        ] {
            let authority: Authority = good.parse().expect("an authority");
            assert!(authority.url().starts_with("https://"), "{good}");
            assert_eq!(authority.to_string(), good);
        }
        for bad in [
            "",
            "zerossl",
            "http://ca.example/dir",
            "https://",
            "https:///dir",
        ] {
            assert!(bad.parse::<Authority>().is_err(), "{bad}");
        }
    }
}
