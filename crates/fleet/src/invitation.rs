//! Code that lets one point join: a secret that counts once, and the pin of the hub's TLS key.

use anyhow::anyhow;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use measure::keys::Pin;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const SECRET_LEN: usize = 16;
/// Begin of every code: a command line must not take a code for an option.
const PREFIX: &str = "tb";

/// One-time code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Random bytes that only the holder of the code knows.
    pub secret: [u8; SECRET_LEN],
    /// Pin of the hub that gave it: the agent talks to no other.
    pub pin: Pin,
}

impl Invitation {
    /// Makes a new code.
    pub(crate) fn new(pin: Pin) -> anyhow::Result<Invitation> {
        let mut secret = [0; SECRET_LEN];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| anyhow!("the system gives no random bytes for a code"))?;
        Ok(Invitation { secret, pin })
    }

    /// Trace of the secret that the ledger keeps: whoever reads the ledger cannot join with it.
    pub(crate) fn trace(secret: &[u8; SECRET_LEN]) -> String {
        measure::keys::hex(&Sha256::digest(secret))
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.secret[..], &self.pin.0].concat();
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Invitation {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Invitation> {
        let wrong = || {
            anyhow!(
                "the code is not whole: copy all 66 characters that `tailback hub invite` printed"
            )
        };
        let coded = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?;
        let bytes = URL_SAFE_NO_PAD.decode(coded).map_err(|_| wrong())?;
        let (secret, pin) = bytes.split_first_chunk().ok_or_else(wrong)?;
        Ok(Invitation {
            secret: *secret,
            pin: Pin(pin.try_into().map_err(|_| wrong())?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_back_and_a_cut_one_is_refused() {
        let made = Invitation::new(Pin([9; 32])).unwrap();
        let text = made.to_string();
        assert_eq!(text.len(), 66);
        assert_eq!(text.parse::<Invitation>().unwrap(), made);
        for cut in 0..66 {
            assert!(text[..cut].parse::<Invitation>().is_err());
        }
    }
}
