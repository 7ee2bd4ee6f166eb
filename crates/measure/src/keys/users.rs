//! Users of a server and their keys.

use super::{KeyFile, Line, SALT_LEN, Salt, Secret, UserId, UserKey, stretch, user_id};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user with the key that admitted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the user.
    pub name: Arc<str>,
    key: [u8; 4],
}

#[derive(Clone, Debug)]
struct Entry {
    name: Arc<str>,
    key: UserKey,
    until: Option<i64>,
}

impl Entry {
    fn is_valid(&self, now_s: i64) -> bool {
        self.until.is_none_or(|end| now_s <= end)
    }
}

/// All users with a key, in the form in which the server looks them up.
#[derive(Clone, Debug)]
pub struct Users {
    salt: Salt,
    by_id: BTreeMap<UserId, Vec<Entry>>,
    /// Key that is checked for an unknown name, so that this takes equally long.
    nobody: UserKey,
    /// Passphrases that were stretched for this salt.
    stretched: Vec<(Line, UserKey)>,
}

impl Users {
    /// Users of a file. `random` provides a salt if the file has none, and a key that nobody has. Passphrases are
    /// stretched here, unless `before` has them already.
    pub fn new(file: &KeyFile, random: [u8; 48], before: Option<&Users>) -> Users {
        let own = || std::array::from_fn(|i| random[i]);
        let salt = file
            .salt
            .unwrap_or_else(|| before.map_or_else(own, |b| b.salt));
        let mut users = Users {
            salt,
            by_id: BTreeMap::new(),
            nobody: UserKey(std::array::from_fn(|i| random[SALT_LEN + i])),
            stretched: Vec::new(),
        };
        for line in &file.lines {
            let key = match &line.secret {
                Secret::Key(key) => *key,
                Secret::Passphrase(passphrase) => {
                    let known = before.filter(|b| b.salt == salt).and_then(|b| {
                        let same = |l: &Line| l.name == line.name && l.secret == line.secret;
                        b.stretched
                            .iter()
                            .find(|(l, _)| same(l))
                            .map(|(_, key)| *key)
                    });
                    let key = known.unwrap_or_else(|| stretch(&salt, &line.name, passphrase));
                    users.stretched.push((line.clone(), key));
                    key
                }
            };
            let entry = Entry {
                name: line.name.as_str().into(),
                key,
                until: line.until,
            };
            let its = users.by_id.entry(user_id(&salt, &line.name)).or_default();
            its.push(entry);
        }
        users
    }

    /// Salt of stretched passphrases.
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// Names in alphabetical order.
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.by_id.values().map(|e| e[0].name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// User of this identifier, and the key that passes `check`. An unknown user costs one check as well.
    pub fn find(
        &self,
        id: &UserId,
        now_s: i64,
        mut check: impl FnMut(&UserKey) -> bool,
    ) -> Option<(Identity, UserKey)> {
        let Some(entries) = self.by_id.get(id) else {
            check(&self.nobody);
            return None;
        };
        let mut found = None;
        for entry in entries {
            if check(&entry.key) && entry.is_valid(now_s) && found.is_none() {
                let identity = Identity {
                    name: entry.name.clone(),
                    key: entry.key.fingerprint(),
                };
                found = Some((identity, entry.key));
            }
        }
        found
    }

    /// True if this user's key is still valid.
    pub fn has(&self, identity: &Identity, now_s: i64) -> bool {
        let entries = self.by_id.get(&user_id(&self.salt, &identity.name));
        entries.into_iter().flatten().any(|e| {
            e.name == identity.name && e.key.fingerprint() == identity.key && e.is_valid(now_s)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str, before: Option<&Users>) -> Users {
        let file = KeyFile::parse(text).expect("a good file");
        Users::new(&file, std::array::from_fn(|i| i as u8), before)
    }

    fn find(users: &Users, name: &str, key: u8, now_s: i64) -> Option<Identity> {
        let id = user_id(&users.salt(), name);
        let found = users.find(&id, now_s, |k| *k == UserKey([key; 32]));
        found.map(|(identity, _)| identity)
    }

    #[test]
    fn two_keys_of_one_user_are_valid_at_once_until_one_expires_or_is_removed() {
        let (old, new) = ("11".repeat(32), "22".repeat(32));
        let both = users(&format!("anna {old} until=1970-01-10\nanna {new}"), None);
        let (first, second) = (find(&both, "anna", 0x11, 0), find(&both, "anna", 0x22, 0));
        let (first, second) = (first.expect("the old key"), second.expect("the new key"));
        assert_ne!(first, second);
        assert!(both.has(&first, 863_999) && !both.has(&first, 864_000));
        assert_eq!(find(&both, "anna", 0x11, 864_000), None);
        assert_eq!(find(&both, "bert", 0x11, 0), None);
        let after = users(&format!("anna {new}"), Some(&both));
        assert_eq!(
            after.salt(),
            both.salt(),
            "clients keep what they stretched"
        );
        assert!(!after.has(&first, 0) && after.has(&second, 0));
        assert_eq!(after.names(), ["anna".into()]);
    }

    #[test]
    fn an_unknown_user_costs_as_many_checks_as_one_with_a_single_key() {
        let all = users(&format!("anna {}", "11".repeat(32)), None);
        for name in ["anna", "nobody"] {
            let mut checks = 0;
            let id = user_id(&all.salt(), name);
            let found = all.find(&id, 0, |_| {
                checks += 1;
                false
            });
            assert_eq!((found, checks), (None, 1), "{name}");
        }
    }

    #[test]
    fn passphrases_are_stretched_once_however_often_the_file_is_read() {
        let text = "anna \"correct horse battery\"";
        let first = users(text, None);
        let key = first.stretched[0].1;
        assert_eq!(stretch(&first.salt(), "anna", "correct horse battery"), key);
        let again = users(text, Some(&first));
        assert_eq!(again.stretched, first.stretched);
    }
}
