//! Certificates by ACME: the site proves its names to an authority, and renews its certificate before it ends.
//!
//! **Protocol.** RFC 8555 with the challenge tls-alpn-01, for names (RFC 8737) and for addresses (RFC 8738): the authority connects
//! to port 443 of each name, and the site answers at its own port. Nothing else has to be open.
//!
//! **Rules.** A certificate is renewed once two thirds of its time are over. After a failure the next attempt follows in ten minutes,
//! then in twice the time, up to twelve hours: authorities limit failures. Until there is a certificate the site has one of
//! its own.
//!
//! **Limits.** One certificate for all names, no wildcards. The authority's renewal information (RFC 9773) is not asked for.

mod authority;
mod challenge;
mod config;
mod error;
mod kept;

pub(super) use challenge::{ACME_TLS, Challenges, Resolver};
pub use config::{AcmeConfig, Authority, SiteName};

use crate::clock::wall_ns;
use crate::serve::sync::lock;
use crate::serve::tls::{Identity, TlsError};
use error::{AcmeError, quoted};
use kept::Certificate;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Waits after failures: the first and the longest.
const AGAIN_AFTER: (Duration, Duration) =
    (Duration::from_secs(600), Duration::from_secs(12 * 3600));
/// Longest sleep between two looks at the clock, which may be set.
const LOOK: Duration = Duration::from_secs(60);

/// State of the site's certificate.
pub(super) struct Acme {
    pub config: AcmeConfig,
    /// Answers to the challenges of an attempt that runs.
    pub challenges: Arc<Challenges>,
    certificate: Mutex<Option<Certificate>>,
}

impl Acme {
    /// Reads the certificate that was kept, if there is one.
    pub fn new(config: &AcmeConfig) -> Acme {
        Acme {
            certificate: Mutex::new(kept::certificate(&config.state)),
            config: config.clone(),
            challenges: Arc::default(),
        }
    }

    /// Address of the site under its first name.
    pub fn url(&self, port: u16) -> String {
        let host = match self.config.names.first() {
            Some(name) if name.ip().is_some_and(|ip| ip.is_ipv6()) => format!("[{name}]"),
            Some(name) => name.to_string(),
            None => String::new(),
        };
        match port {
            443 => format!("https://{host}/"),
            _ => format!("https://{host}:{port}/"),
        }
    }

    /// Certificate and key while they are valid, with the end of that, UNIX time in ns.
    pub fn identity(&self) -> Option<(Identity, i64)> {
        let held = lock(&self.certificate);
        let held = held.as_ref().filter(|c| c.until_ns > wall_ns())?;
        let (chain, key) = &held.identity;
        Some(((chain.clone(), key.clone_key()), held.until_ns))
    }

    /// Time until the next certificate is due.
    fn due_in(&self) -> Duration {
        let held = lock(&self.certificate);
        let due = held
            .as_ref()
            .filter(|c| c.is_for(&self.config.names))
            .map_or(i64::MIN, Certificate::renewed_at);
        let left = due.saturating_sub(wall_ns()).max(0);
        Duration::from_nanos(left.unsigned_abs())
    }

    async fn obtain(&self, say: &dyn Fn(String)) -> Result<(), AcmeError> {
        let done = authority::obtain(&self.config, &self.challenges, say).await;
        self.challenges.clear();
        let certificate = done?;
        if !certificate.is_for(&self.config.names) {
            return Err(AcmeError::Unusable("it is for other names".into()));
        }
        if certificate.renewed_at() <= wall_ns() {
            return Err(AcmeError::Unusable(
                "by the clock of this host its time is over already".into(),
            ));
        }
        *lock(&self.certificate) = Some(certificate);
        Ok(())
    }
}

/// Time in the largest unit of which there are two or more.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [("days", 86_400), ("hours", 3600), ("minutes", 60)];
    let unit = units.into_iter().find(|(_, unit)| seconds >= 2 * unit);
    match unit {
        Some((name, unit)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} seconds"),
    }
}

/// Keeps the certificate of the site valid. `renew` takes each new one into use.
pub(super) async fn keep(
    acme: Arc<Acme>,
    renew: impl Fn() -> Result<(), TlsError>,
    say: impl Fn(String),
) {
    let (first, longest) = AGAIN_AFTER;
    let mut again = first;
    loop {
        let wait = acme.due_in();
        if !wait.is_zero() {
            tokio::time::sleep(wait.min(LOOK)).await;
            continue;
        }
        let names: Vec<String> = acme.config.names.iter().map(SiteName::to_string).collect();
        let names = names.join(", ");
        let done = acme.obtain(&say).await;
        match done.and_then(|()| renew().map_err(|e| AcmeError::Unusable(e.to_string()))) {
            Ok(()) => {
                say(format!(
                    "certificate for {names} from {}; the next one in {}",
                    acme.config.authority,
                    in_words(acme.due_in())
                ));
                again = first;
            }
            Err(e) => {
                say(format!(
                    "no certificate for {names} from {}: {}. Next attempt in {}",
                    acme.config.authority,
                    quoted(&e.to_string()),
                    in_words(again)
                ));
                tokio::time::sleep(again).await;
                again = (2 * again).min(longest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_unit() {
        let told = |s| in_words(Duration::from_secs(s));
        assert_eq!(told(60 * 86_400 - 1), "59 days");
        assert_eq!(told(86_400), "24 hours");
        assert_eq!(told(600), "10 minutes");
        assert_eq!(told(119), "119 seconds");
    }
}
