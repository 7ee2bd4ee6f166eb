//! Token of a person: a private key, and the pin of the hub that knows its public half.

use crate::identity::Identity;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use measure::keys::Pin;

/// Purpose of a token, and the letters with which its text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Withdraws a shared recording.
    Withdraw,
    /// Operates a fleet.
    Operate,
}

impl Purpose {
    fn prefix(self) -> &'static str {
        match self {
            Purpose::Withdraw => "tw",
            Purpose::Operate => "to",
        }
    }
}

/// Characters of a token.
pub(crate) const LENGTH: usize = 88;

/// Secret half of a person's key, and the hub's pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    secret: [u8; 32],
    pub pin: Pin,
}

impl Token {
    /// Makes a new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(pin: Pin) -> anyhow::Result<Token> {
        let secret = Identity::new_secret()?;
        Ok(Token { secret, pin })
    }

    /// Key of its holder.
    ///
    /// # Errors
    /// The secret half is no key.
    pub fn identity(&self) -> anyhow::Result<Identity> {
        Identity::from_secret(&self.secret)
    }

    /// Text of the token.
    pub fn text(&self, purpose: Purpose) -> String {
        let bytes = [&self.secret[..], &self.pin.0].concat();
        format!("{}{}", purpose.prefix(), URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads the text of a token for this purpose.
    pub fn read(text: &str, purpose: Purpose) -> Option<Token> {
        let text = text.trim().strip_prefix(purpose.prefix())?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (secret, pin) = bytes.split_first_chunk()?;
        Some(Token {
            secret: *secret,
            pin: Pin(pin.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_a_cut_one_or_one_of_another_purpose_is_refused() {
        let token = Token {
            secret: [5; 32],
            pin: Pin([9; 32]),
        };
        let text = token.text(Purpose::Withdraw);
        assert_eq!(text.len(), LENGTH);
        assert_eq!(Token::read(&text, Purpose::Withdraw), Some(token));
        assert_eq!(Token::read(&text, Purpose::Operate), None);
        for cut in 0..text.len() {
            assert_eq!(Token::read(&text[..cut], Purpose::Withdraw), None, "{cut}");
        }
    }
}
