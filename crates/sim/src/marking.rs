//! DSCP and ECN of a scenario's packets, by their usual names.

use base::Ecn;
use base::words::hint;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Named code points: RFC 2474 section 4.2.2.2 (class selectors), RFC 2597 section 6 (assured forwarding), RFC 3246
/// section 2.7 (expedited forwarding), RFC 8622 section 2 (lower effort).
const NAMES: [(&str, u8); 23] = [
    ("default", 0),
    ("le", 1),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("va", 44),
];

/// DSCP (six bits), written as a number or by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// Value of the code point.
    pub fn get(self) -> u8 {
        self.0
    }
    /// True for the default class.
    pub fn is_default(&self) -> bool {
        self.0 == 0
    }
}

impl Serialize for Dscp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => s.serialize_str(name),
            None => s.serialize_u8(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Dscp, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Dscp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a DSCP: a number from 0 to 63, or a name such as \"ef\" or \"af41\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Dscp, E> {
                match u8::try_from(number) {
                    Ok(n @ 0..=63) => Ok(Dscp(n)),
                    _ => Err(E::custom(format!("dscp = {number}: from 0 to 63"))),
                }
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Dscp, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dscp, E> {
                let lower = text.to_lowercase();
                if let Ok(number) = lower.parse() {
                    return self.visit_i64(number);
                }
                match NAMES.iter().find(|(name, _)| *name == lower) {
                    Some((_, value)) => Ok(Dscp(*value)),
                    None => {
                        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                        Err(E::custom(format!(
                            "no DSCP \"{text}\": a number from 0 to 63, or one of {}.{}",
                            known.join(", "),
                            hint(&lower, &known)
                        )))
                    }
                }
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// ECN bits with which datagrams leave: `not_ect`, `ect0`, `ect1` or `ce`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnWord(pub Ecn);

const ECN: [(&str, Ecn); 4] = [
    ("not_ect", Ecn::NotEct),
    ("ect0", Ecn::Ect0),
    ("ect1", Ecn::Ect1),
    ("ce", Ecn::Ce),
];

impl Serialize for EcnWord {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let word = ECN.iter().find(|(_, ecn)| *ecn == self.0);
        s.serialize_str(word.map_or("not_ect", |(word, _)| word))
    }
}

impl<'de> Deserialize<'de> for EcnWord {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<EcnWord, D::Error> {
        let text = String::deserialize(d)?;
        let known = ECN.map(|(word, _)| word);
        match ECN.iter().find(|(word, _)| *word == text) {
            Some((_, ecn)) => Ok(EcnWord(*ecn)),
            None => Err(de::Error::custom(format!(
                "ecn = \"{text}\": one of {}.{}",
                known.join(", "),
                hint(&text, &known)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        dscp: Dscp,
        ecn: EcnWord,
    }
    fn read(dscp: &str, ecn: &str) -> Result<Both, String> {
        let text = format!("dscp = {dscp}\necn = \"{ecn}\"");
        toml::from_str(&text).map_err(|e| e.message().to_string())
    }

    #[test]
    fn a_number_and_its_name_are_the_same() {
        let named = read("\"EF\"", "ect1").unwrap();
        assert_eq!(named, read("46", "ect1").unwrap());
        assert_eq!(named.dscp.get(), 46);
        // RFC 2597 section 6: AF41 is 100010.
        assert_eq!(read("\"af41\"", "ce").unwrap().dscp.get(), 0b10_0010);
        let written = toml::to_string(&named).unwrap();
        assert_eq!(toml::from_str::<Both>(&written).unwrap(), named);
        assert_eq!(read("45", "ect0").unwrap().dscp.get(), 45);
    }

    #[test]
    fn what_is_none_is_answered_with_what_there_is() {
        assert!(read("64", "ce").unwrap_err().contains("from 0 to 63"));
        assert!(read("-1", "ce").unwrap_err().contains("from 0 to 63"));
        assert!(
            read("\"af4l\"", "ce")
                .unwrap_err()
                .contains("Did you mean \"af41\"?")
        );
        assert!(read("0", "ect").unwrap_err().contains("ect0"));
    }
}
