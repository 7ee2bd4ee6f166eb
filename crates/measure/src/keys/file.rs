//! File of keys, the same at both ends. A server's has a line for each key, a client's has one line.
//!
//! ```text
//! # comment
//! @salt 00112233445566778899aabbccddeeff
//! anna 64 hexadecimal digits
//! anna 64 hexadecimal digits until=2027-01-31
//! bert "a passphrase in quotes"
//! carl stretched:64 hexadecimal digits
//! ```

use super::{
    Credential, KEY_LEN, Pin, SHORTEST_PASSPHRASE, Salt, Secret, UserKey, from_hex, hex, stretch,
};

/// Maximum number of keys in a file.
const MOST_KEYS: usize = 10_000;
/// Maximum number of keys of one user: the old one, the new one, and some to spare.
pub(super) const MOST_OF_ONE: usize = 4;
const LONGEST_NAME: usize = 32;
const NAME_RULE: &str = "a name has 1 to 32 letters, digits, dots, dashes or underscores";
const LONGEST_PASSPHRASE: usize = 1024;

/// A key of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of the user.
    pub name: String,
    /// Key, or passphrase.
    pub secret: Secret,
    /// End of the last day on which the key is valid, UNIX s; null for no end.
    pub until: Option<i64>,
    /// Pin of the server, in a client's file.
    pub pin: Option<Pin>,
}

/// A parsed file of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFile {
    /// Salt of stretched passphrases.
    pub salt: Option<Salt>,
    /// Keys in order.
    pub lines: Vec<Line>,
}

/// Fault of one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct KeyFileError {
    /// Line number, from 1.
    pub line: usize,
    /// Fault in words.
    pub what: String,
}

impl KeyFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first line that cannot be read, and the reason. The secret is never part of the message.
    pub fn parse(text: &str) -> Result<KeyFile, KeyFileError> {
        let (file, fault) = KeyFile::parse_what_can_be_read(text);
        fault.map_or(Ok(file), Err)
    }

    /// Reads the lines of a file that have no fault. Returns the first fault as well.
    pub fn parse_what_can_be_read(text: &str) -> (KeyFile, Option<KeyFileError>) {
        let (mut file, mut fault) = (KeyFile::default(), None);
        let mut stretched = None;
        for (i, text) in text.lines().enumerate() {
            let text = text.trim();
            if text.contains("stretched:") && !text.starts_with('#') {
                stretched.get_or_insert(i + 1);
            }
            if let Err(what) = file.add(text) {
                fault.get_or_insert(KeyFileError { line: i + 1, what });
            }
        }
        if let (None, Some(line)) = (file.salt, stretched) {
            let what =
                "a stretched key needs the salt that it was stretched with: a line \"@salt …\""
                    .into();
            fault.get_or_insert(KeyFileError { line, what });
        }
        (file, fault)
    }

    /// Reads one line.
    fn add(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        if let Some(salt) = text.strip_prefix("@salt") {
            let salt = from_hex(salt.trim()).ok_or("a salt is 32 hexadecimal digits")?;
            if self.salt.is_some() {
                return Err("there is a salt already".into());
            }
            self.salt = Some(salt);
            return Ok(());
        }
        let line = parse_line(text)?;
        if self.lines.len() >= MOST_KEYS {
            return Err(format!("more than {MOST_KEYS} keys"));
        }
        let same = self.lines.iter().filter(|l| l.name == line.name).count();
        if same >= MOST_OF_ONE {
            let name = &line.name;
            return Err(format!(
                "{name} has {MOST_OF_ONE} keys already: remove an old one"
            ));
        }
        self.lines.push(line);
        Ok(())
    }

    /// Single credential of a client's file, and the pin of its server.
    ///
    /// # Errors
    /// The file has no key, or several.
    pub fn single(mut self) -> Result<(Credential, Option<Pin>), String> {
        match (self.lines.pop(), self.lines.is_empty()) {
            (Some(line), true) => Ok((Credential::new(&line.name, line.secret), line.pin)),
            (None, _) => Err("it holds no key: write one line, \"NAME KEY\"".into()),
            _ => Err("it holds several keys, and a client has one: keep its line only".into()),
        }
    }
}

fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b))
        && !text.starts_with('@')
}

fn parse_line(text: &str) -> Result<Line, String> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim_start();
    if rest.is_empty() {
        return Err("one word only: write \"NAME KEY\"".into());
    }
    if !is_name(name) {
        return Err(NAME_RULE.into());
    }
    let (secret, rest) = match rest.strip_prefix('"') {
        Some(quoted) => {
            let (passphrase, rest) = quoted
                .split_once('"')
                .ok_or("the passphrase has no closing quote")?;
            (passphrase_of(passphrase)?, rest)
        }
        None => {
            let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (secret_of(word)?, rest)
        }
    };
    let mut line = Line {
        name: name.to_owned(),
        secret,
        until: None,
        pin: None,
    };
    for word in rest.split_whitespace() {
        if let Some(date) = word.strip_prefix("until=") {
            line.until = Some(end_of_day(date).ok_or("write a date as until=2027-01-31")?);
        } else if let Some(pin) = word.strip_prefix("pin=") {
            line.pin = Some(pin.parse()?);
        } else if word.starts_with('#') {
            break;
        } else {
            return Err(
                "words after the key: a passphrase with spaces stands in quotes; options are until=DATE and pin=sha256:…"
                    .into(),
            );
        }
    }
    Ok(line)
}

fn secret_of(word: &str) -> Result<Secret, String> {
    if let Some(stretched) = word.strip_prefix("stretched:") {
        let key = from_hex::<KEY_LEN>(stretched)
            .ok_or("a stretched key is \"stretched:\" and 64 hexadecimal digits")?;
        return Ok(Secret::Key(UserKey(key)));
    }
    match from_hex::<KEY_LEN>(word) {
        Some(key) => Ok(Secret::Key(UserKey(key))),
        None if word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit()) => Err(format!(
            "a key has 64 hexadecimal digits, and this one {}",
            word.len()
        )),
        None => passphrase_of(word),
    }
}

fn passphrase_of(text: &str) -> Result<Secret, String> {
    if text.len() < SHORTEST_PASSPHRASE {
        return Err(format!(
            "a passphrase has {SHORTEST_PASSPHRASE} characters at least; `tailback serve keys add NAME` makes a random key"
        ));
    }
    if text.len() > LONGEST_PASSPHRASE {
        return Err(format!(
            "a passphrase has {LONGEST_PASSPHRASE} characters at most"
        ));
    }
    Ok(Secret::Passphrase(text.to_owned()))
}

/// Last second of a UTC day, UNIX s.
fn end_of_day(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-');
    let mut part = |digits: usize| {
        let text = parts.next()?;
        (text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
        text.parse::<i64>().ok()
    };
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || year < 1970 {
        return None;
    }
    // Years start in March, so that the leap day is their last.
    let year_from_march = year - i64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leaps = year_from_march / 4 - year_from_march / 100 + year_from_march / 400;
    // 719468 days lie between 1 March of the year 0 and the UNIX epoch.
    let day_number = 365 * year_from_march + leaps + day_of_year - 719_468;
    Some((day_number + 1) * 86_400 - 1)
}

/// Line of the file for a random key.
///
/// # Errors
/// The name cannot be used.
pub fn random_line(name: &str, key: &[u8; KEY_LEN]) -> Result<String, String> {
    if !is_name(name) {
        return Err(NAME_RULE.into());
    }
    Ok(format!("{name} {}", hex(key)))
}

/// Line of a server's file for a passphrase, which the file does not contain.
///
/// # Errors
/// The name or the passphrase cannot be used.
pub fn stretched_line(name: &str, passphrase: &str, salt: &Salt) -> Result<String, String> {
    if !is_name(name) {
        return Err(NAME_RULE.into());
    }
    if passphrase.contains(['"', '\n']) {
        return Err("a passphrase has no quotes in it".into());
    }
    passphrase_of(passphrase)?;
    let key = stretch(salt, name, passphrase);
    Ok(format!("{name} stretched:{}", hex(&key.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_with_everything_in_it_is_read() {
        let text = format!(
            "# users\n\n@salt {}\nanna {}\nanna {} until=2027-01-31\nbert \"correct horse battery\" # his\ncarl stretched:{}\nd.e-f_g tr0mbone-banana pin=sha256:{}\n",
            "0f".repeat(16),
            "11".repeat(32),
            "22".repeat(32),
            "33".repeat(32),
            "44".repeat(32),
        );
        let file = KeyFile::parse(&text).expect("a good file");
        assert_eq!(file.salt, Some([0x0f; 16]));
        let names: Vec<&str> = file.lines.iter().map(|l| &*l.name).collect();
        assert_eq!(names, ["anna", "anna", "bert", "carl", "d.e-f_g"]);
        assert_eq!(file.lines[1].until, Some(1_801_439_999));
        assert_eq!(file.lines[0].secret, Secret::Key(UserKey([0x11; 32])));
        assert_eq!(
            file.lines[2].secret,
            Secret::Passphrase("correct horse battery".into())
        );
        assert_eq!(file.lines[4].pin, Some(Pin([0x44; 32])));
        assert!(file.single().is_err());
    }

    #[test]
    fn each_fault_is_told_with_its_line_and_without_the_secret() {
        let cases = [
            ("anna", "NAME KEY"),
            ("an/na 0123456789abc", "letters"),
            ("anna s3cret", "12 characters"),
            ("anna \"correct horse battery", "closing quote"),
            ("anna correct-s3cret battery", "in quotes"),
            (&format!("anna {}", "a".repeat(63)), "64 hexadecimal"),
            (&format!("anna {}", "ab".repeat(40)), "64 hexadecimal"),
            (
                &format!("anna {} until=2027-02-29", "ab".repeat(32)),
                "until=2027",
            ),
            (&format!("anna {} pin=sha256:1", "ab".repeat(32)), "pin"),
            ("@salt 12", "32 hexadecimal"),
            (&format!("anna stretched:{}", "ab".repeat(32)), "@salt"),
        ];
        for (line, says) in cases {
            let e = KeyFile::parse(&format!("# one\n{line}\n")).expect_err(line);
            assert_eq!(e.line, 2, "{line}");
            assert!(e.what.contains(says), "{line}: {e}");
            assert!(!e.what.contains("s3cret"), "{e}");
        }
        let five = format!("anna {}\n", "ab".repeat(32)).repeat(5);
        let e = KeyFile::parse(&five).expect_err("five keys of one user");
        assert_eq!(e.line, 5);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (date, at) in [
            ("1970-01-01", 86_399),
            ("2000-02-29", 951_868_799),
            ("2026-12-31", 1_798_761_599),
            ("2100-03-01", 4_107_628_799),
        ] {
            assert_eq!(end_of_day(date), Some(at), "{date}");
        }
        for wrong in [
            "",
            "2026-13-01",
            "2026-00-10",
            "2100-02-29",
            "26-01-01",
            "2026-1-01",
            "1969-12-31",
        ] {
            assert_eq!(end_of_day(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n\"@#=é]{0,300}") {
            let _ = KeyFile::parse(&text);
        }

        #[test]
        fn a_made_line_reads_back(name in "[a-zA-Z0-9][a-zA-Z0-9._-]{0,31}", key: [u8; 32]) {
            let spaced = format!("{name} x");
            prop_assert!(random_line(&spaced, &key).is_err());
            let line = random_line(&name, &key).expect("a good name");
            let file = KeyFile::parse(&line).expect("readable");
            prop_assert_eq!(&file.lines[0].secret, &Secret::Key(UserKey(key)));
            let (credential, pin) = file.single().expect("one key");
            prop_assert_eq!((credential.name(), pin), (&*name, None));
        }
    }
}
