//! Rights: an emulation needs network namespaces. Root may make them; anyone else may inside a user namespace of their
//! own, if the system allows those.

use super::EmulateError;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bits of CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN in `CapEff`.
const NEEDED: u64 = 1 << 12 | 1 << 13 | 1 << 21;

/// True if [`prepare`] made the user namespace that this process is in.
static OWN_USER_NAMESPACE: AtomicBool = AtomicBool::new(false);

/// True if this process's rights end at a user namespace of its own, so that handing them on is harmless.
pub(crate) fn rights_are_confined() -> bool {
    OWN_USER_NAMESPACE.load(Ordering::Relaxed)
}

/// Gets this process the right to emulate. Call it first in `main`: the kernel moves only a process of one thread into
/// a user namespace. Does nothing with root's rights, or when called again.
///
/// The user keeps their own uid and gid, so files that a command writes behind the link are theirs. In exchange the
/// command gets the network's rights, which hold in its own network namespaces only: to choose any congestion control,
/// to capture, to bind a low port.
///
/// # Errors
/// The setting of this system that forbids user namespaces, and the command that allows them.
pub fn prepare() -> Result<(), EmulateError> {
    if has_rights() {
        return Ok(());
    }
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(EmulateError::TooLate { threads });
    }
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| refused(e, &read_setting))?;
    let map = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|e| {
            refused(
                e.raw_os_error().map_or(Errno::EPERM, Errno::from_raw),
                &read_setting,
            )
        })
    };
    OWN_USER_NAMESPACE.store(true, Ordering::Relaxed);
    // user_namespaces(7): a gid map may be written without privileges only once setgroups is denied.
    map("setgroups", "deny".into())?;
    map("uid_map", format!("{uid} {uid} 1"))?;
    map("gid_map", format!("{gid} {gid} 1"))?;
    if has_rights() {
        Ok(())
    } else {
        Err(refused(Errno::EPERM, &read_setting))
    }
}

fn has_rights() -> bool {
    fs::read_to_string("/proc/thread-self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .is_some_and(|caps| caps & NEEDED == NEEDED)
}

fn read_setting(name: &str) -> Option<String> {
    Some(
        fs::read_to_string(format!("/proc/sys/{name}"))
            .ok()?
            .trim()
            .to_string(),
    )
}

/// Finds the setting that refuses, by the known checks of the kernel and the distributions.
pub(super) fn refused(errno: Errno, setting: &dyn Fn(&str) -> Option<String>) -> EmulateError {
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    let alternative = "Or run this command as root";
    let (missing, remedy) = if is("user/max_user_namespaces", "0") {
        (
            "user namespaces are switched off (user.max_user_namespaces = 0)".to_string(),
            format!("To allow them: sudo sysctl -w user.max_user_namespaces=10000. {alternative}"),
        )
    } else if is("kernel/unprivileged_userns_clone", "0") {
        (
            "user namespaces are for root only (kernel.unprivileged_userns_clone = 0)".to_string(),
            format!(
                "To allow them: sudo sysctl -w kernel.unprivileged_userns_clone=1. {alternative}"
            ),
        )
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        (
            "AppArmor takes away the rights inside a user namespace (kernel.apparmor_restrict_unprivileged_userns = 1)".to_string(),
            format!(
                "To allow them: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give this program an AppArmor \
                 profile with \"userns,\". {alternative}"
            ),
        )
    } else if errno == Errno::ENOSPC || errno == Errno::EUSERS {
        (
            format!(
                "the limit of user namespaces is reached (user.max_user_namespaces = {}; they nest at most 32 deep)",
                setting("user/max_user_namespaces").unwrap_or_else(|| "unknown".into())
            ),
            format!("Raise it: sudo sysctl -w user.max_user_namespaces=10000. {alternative}"),
        )
    } else {
        (
            format!(
                "user namespaces are refused ({errno}), most likely by a container's seccomp filter or another security module"
            ),
            format!(
                "In Docker: --cap-add NET_ADMIN --cap-add SYS_ADMIN --security-opt apparmor=unconfined, as root in the container. {alternative}"
            ),
        )
    };
    EmulateError::NotAllowed { missing, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str, errno: Errno) -> String {
        refused(errno, &|asked| (asked == name).then(|| value.to_string())).to_string()
    }

    #[test]
    fn a_refusal_names_the_setting_and_the_command_that_changes_it() {
        let said = with("user/max_user_namespaces", "0", Errno::ENOSPC);
        assert!(
            said.contains("user.max_user_namespaces = 0")
                && said.contains("sysctl -w user.max_user_namespaces=10000"),
            "{said}"
        );
        let said = with("kernel/unprivileged_userns_clone", "0", Errno::EPERM);
        assert!(
            said.contains("sysctl -w kernel.unprivileged_userns_clone=1"),
            "{said}"
        );
        let said = with(
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            Errno::EPERM,
        );
        assert!(
            said.contains("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
            "{said}"
        );
    }

    #[test]
    fn a_setting_that_allows_is_not_blamed() {
        let said = with("user/max_user_namespaces", "96551", Errno::EPERM);
        assert!(
            said.contains("seccomp") && !said.contains("max_user_namespaces"),
            "{said}"
        );
        let said = with("user/max_user_namespaces", "12", Errno::ENOSPC);
        assert!(said.contains("user.max_user_namespaces = 12"), "{said}");
    }
}
