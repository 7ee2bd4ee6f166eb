//! Rights of the process: a server that was started as root gives them up once its ports are open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, User, geteuid, setgid, setgroups, setuid};
use std::io;

/// Memory that the process may write to, bytes: a leak ends this process, not the host.
const DATA_BYTES: u64 = 1 << 30;
/// Capability number of linux/capability.h.
const CAP_NET_BIND_SERVICE: u32 = 10;
const LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;
const LAST_CAP: i32 = 63;

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
}

/// User that a server becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    name: String,
    uid: Uid,
    gid: Gid,
}

impl Target {
    /// # Errors An unknown user.
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

    /// Switches to this user, with its group alone. Must run before other threads start.
    ///
    /// # Errors The system refuses, or does not do it.
    pub fn become_it(&self, kept: Kept) -> Result<(), PrivilegeError> {
        let refused = |what| {
            move |e: nix::errno::Errno| PrivilegeError::Refused {
                name: self.name.clone(),
                what,
                source: e.into(),
            }
        };
        let was_root = geteuid().is_root();
        if kept.low_ports && was_root {
            prctl(libc::PR_SET_KEEPCAPS, 1).map_err(refused("keep capabilities"))?;
        }
        drop_bounding_set(kept);
        setgroups(&[self.gid]).map_err(refused("setgroups"))?;
        setgid(self.gid).map_err(refused("setgid"))?;
        setuid(self.uid).map_err(refused("setuid"))?;
        let low_ports = kept.low_ports && was_root;
        set_capabilities(if low_ports {
            1 << CAP_NET_BIND_SERVICE
        } else {
            0
        })
        .map_err(refused("capset"))?;
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
/// # Errors The kernel refuses, as before Linux 3.5.
pub fn confine() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    // Core files would hold keys. A service manager that allows no such call has limits of its own.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_DATA) {
        let most = DATA_BYTES.min(hard);
        let _ = setrlimit(Resource::RLIMIT_DATA, most, most);
    }
    Ok(())
}

fn prctl(option: i32, value: u64) -> nix::Result<()> {
    // SAFETY: the options that are used here take one number and no pointer.
    let done = unsafe { libc::prctl(option, value, 0u64, 0u64, 0u64) };
    nix::errno::Errno::result(done).map(drop)
}

/// Drops capabilities for good, even from programs that the process would start. Without the right to do so there is
/// nothing to drop.
fn drop_bounding_set(kept: Kept) {
    for cap in 0..=LAST_CAP {
        if !(kept.low_ports && cap as u32 == CAP_NET_BIND_SERVICE) {
            let _ = prctl(libc::PR_CAPBSET_DROP, cap as u64);
        }
    }
}

/// Sets the effective and permitted capabilities of this thread to these of the first 32; the inheritable set is empty.
fn set_capabilities(caps: u32) -> nix::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header {
        version: LINUX_CAPABILITY_VERSION_3,
        pid: 0,
    };
    // Effective, permitted, inheritable: first the lower 32 of each, then the upper.
    let data: [u32; 6] = [caps, caps, 0, 0, 0, 0];
    // SAFETY: capset reads a header and two structures of three words, whose addresses are given and which outlive it.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    nix::errno::Errno::result(done).map(drop)
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
