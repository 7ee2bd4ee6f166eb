//! Rights of the process: a server that was started as root gives them up once its ports are open.

use crate::sys::rights::{drop_from_bounding_set, set_capabilities};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, User, geteuid, setgid, setgroups, setuid};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Memory that the process may write to, bytes: a leak ends this process, not the host.
const DATA_BYTES: u64 = 1 << 30;
/// Capability number of linux/capability.h.
const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_NET_RAW: u32 = 13;
const LAST_CAP: u32 = 63;

#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    #[error(
        "no user \"{name}\" on this host: create it (`useradd --system {name}`), or name another with --user"
    )]
    NoSuchUser { name: String },
    #[error("cannot become user \"{name}\" ({what}): {source}. Only root can change its user")]
    Refused {
        name: String,
        what: &'static str,
        source: io::Error,
    },
    #[error(
        "became user \"{name}\", yet the rights of root came back: the system did not keep its promise"
    )]
    NotGone { name: String },
}

/// Rights that a server keeps after its ports are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// True if ports below 1024 may be opened later.
    pub low_ports: bool,
    /// True if packets may be captured later.
    pub raw: bool,
}

impl Kept {
    /// Bit of each capability.
    fn capabilities(self) -> u64 {
        let bit = |kept: bool, capability: u32| u64::from(kept) << capability;
        bit(self.low_ports, CAP_NET_BIND_SERVICE) | bit(self.raw, CAP_NET_RAW)
    }
}

/// User that a server becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    name: String,
    uid: Uid,
    gid: Gid,
}

impl Target {
    /// # Errors
    /// An unknown user.
    pub fn find(name: &str) -> Result<Target, PrivilegeError> {
        match User::from_name(name) {
            Ok(Some(user)) => Ok(Target {
                name: name.into(),
                uid: user.uid,
                gid: user.gid,
            }),
            _ => Err(PrivilegeError::NoSuchUser { name: name.into() }),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives it a directory, for it alone.
    ///
    /// # Errors
    /// No directory, or one that the process may not give away.
    pub fn give(&self, directory: &Path) -> io::Result<()> {
        let (uid, gid) = (self.uid.as_raw(), self.gid.as_raw());
        std::os::unix::fs::lchown(directory, Some(uid), Some(gid))?;
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
    }

    /// Switches to this user, with its group alone. Must run before other threads start.
    ///
    /// # Errors
    /// The system refuses, or does not do it.
    pub fn become_it(&self, kept: Kept) -> Result<(), PrivilegeError> {
        let refused = |what| {
            move |e: nix::errno::Errno| PrivilegeError::Refused {
                name: self.name.clone(),
                what,
                source: e.into(),
            }
        };
        let was_root = geteuid().is_root();
        let capabilities = match was_root {
            true => kept.capabilities(),
            false => 0,
        };
        if capabilities != 0 {
            prctl::set_keepcaps(true).map_err(refused("keep capabilities"))?;
        }
        drop_bounding_set(kept);
        setgroups(&[self.gid]).map_err(refused("setgroups"))?;
        setgid(self.gid).map_err(refused("setgid"))?;
        setuid(self.uid).map_err(refused("setuid"))?;
        set_capabilities(capabilities as u32).map_err(refused("capset"))?;
        if !self.uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
            return Err(PrivilegeError::NotGone {
                name: self.name.clone(),
            });
        }
        Ok(())
    }
}

/// True if the process has the rights of root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Forbids new rights, core files and endless memory, for this process and its threads to come.
///
/// # Errors
/// The kernel refuses, as before Linux 3.5.
pub fn confine() -> io::Result<()> {
    prctl::set_no_new_privs()?;
    // Core files would hold keys. A service manager that allows no such call has limits of its own.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_DATA) {
        let most = DATA_BYTES.min(hard);
        let _ = setrlimit(Resource::RLIMIT_DATA, most, most);
    }
    Ok(())
}

/// Takes capabilities away for good, also from programs that the process would start. Without the right to do so there
/// is nothing to take.
fn drop_bounding_set(kept: Kept) {
    for cap in 0..=LAST_CAP {
        if kept.capabilities() >> cap & 1 == 0 {
            let _ = drop_from_bounding_set(cap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_named_with_what_to_do() {
        let e = Target::find("tailback-nobody-of-this-name").expect_err("there is none");
        assert!(e.to_string().contains("useradd --system"), "{e}");
    }
}
