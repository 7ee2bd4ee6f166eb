//! The processes around a command that runs behind the link.
//!
//! ```text
//!   tailback ─▶ keeper ─▶ init (process 1 of a namespace of its own) ─▶ the command
//! ```
//! Process 1 takes everything in its namespace with it when it ends, however it ends, and it ends with
//! the keeper, which ends with us: so not even `kill -9` leaves a process behind. Both pass on the
//! signals that somebody sent, and the exit code on the way back.
//!
//! All of this runs between fork and exec of a process that may have had threads: system calls only,
//! no heap, no locks.

use super::check;
use nix::sched::{CloneFlags, setns, unshare};
use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

/// All that the child needs, made ready before the fork.
pub(crate) struct Plan {
    /// The content of `/etc/hosts` behind the link.
    pub hosts: Vec<u8>,
    /// Said where the names could not be set up.
    pub no_names: Vec<u8>,
    pub parent: libc::pid_t,
    /// True if the command gets the capability for networks although it is not root.
    pub hand_on_rights: bool,
}

impl Plan {
    pub(crate) fn new(hosts: String) -> Plan {
        Plan {
            hosts: hosts.into_bytes(),
            no_names: b"warning: the names \"near\" and \"far\" are not known behind the link (/etc/hosts could not be replaced there); use 10.77.0.1 and 10.77.0.2\n".to_vec(),
            parent: nix::unistd::getpid().as_raw(),
            hand_on_rights: crate::emulate::rights_are_confined(),
        }
    }
}

const TEMPORARY: &CStr = c"/tmp";
const TEMPORARY_HOSTS: &CStr = c"/tmp/hosts";
const HOSTS: &CStr = c"/etc/hosts";

/// Turns the calling process, fresh from fork, into the keeper, and returns in the process that is to
/// become the command.
pub(super) fn isolate(plan: &Plan, net: BorrowedFd) -> io::Result<()> {
    die_with_parent()?;
    // SAFETY: no arguments, no effects.
    if unsafe { libc::getppid() } != plan.parent {
        // It died before the line above could take effect.
        exit(1);
    }
    setns(net, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    if name_hosts(&plan.hosts).is_err() {
        // SAFETY: the buffer is valid for its length. There is nobody to tell if this fails too.
        unsafe { libc::write(2, plan.no_names.as_ptr().cast(), plan.no_names.len()) };
    }
    // So that tools see the interfaces of this namespace. Where it is refused they see the host's names,
    // but still reach only this namespace's.
    let _ = mount(
        Some(c"sysfs"),
        c"/sys",
        Some(c"sysfs"),
        libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
    );
    block_all();
    match fork()? {
        0 => {}
        init => keep(init, false),
    }
    die_with_parent()?;
    // So that tools see the processes of this namespace; refused where parts of /proc are hidden.
    let _ = mount(
        Some(c"proc"),
        c"/proc",
        Some(c"proc"),
        libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
    );
    match fork()? {
        0 => {}
        command => keep(command, true),
    }
    if plan.hand_on_rights {
        hand_on_rights()?;
    }
    unblock_all();
    Ok(())
}

/// Waits for the child and ends as it did, passing on what is sent meanwhile. As process 1 it also
/// buries the orphans of its namespace.
fn keep(child: libc::pid_t, is_init: bool) -> ! {
    // The caller of `spawn` waits until nobody but the command holds the descriptor that exec closes.
    // SAFETY: closes descriptors that nothing here uses.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    // SAFETY: zeroes are values of these types; the calls fill in what they are given.
    let (mut all, mut info): (libc::sigset_t, libc::siginfo_t) = unsafe { std::mem::zeroed() };
    // SAFETY: fills in the set that it is given.
    unsafe { libc::sigfillset(&raw mut all) };
    loop {
        let mut status = 0;
        // SAFETY: writes one integer that lives across the call.
        let ended = unsafe {
            libc::waitpid(
                if is_init { -1 } else { child },
                &raw mut status,
                libc::WNOHANG,
            )
        };
        if ended == child {
            exit(if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                128 + libc::WTERMSIG(status)
            });
        }
        if ended > 0 {
            continue;
        }
        // SAFETY: both point to values that live across the call.
        let signal = unsafe { libc::sigwaitinfo(&raw const all, &raw mut info) };
        // What the kernel sends (Ctrl-C at the terminal) goes to the command as well by itself.
        if signal > 0 && signal != libc::SIGCHLD && info.si_code != libc::SI_KERNEL {
            // SAFETY: no pointers; the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(child, signal) };
        }
    }
}

/// Names near and far in a file of our own, seen only by the processes of this mount namespace. The
/// file needs a place for a moment only: it stays while it is mounted.
fn name_hosts(content: &[u8]) -> io::Result<()> {
    mount(
        Some(c"tmpfs"),
        TEMPORARY,
        Some(c"tmpfs"),
        libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
    )?;
    let named = write_file(TEMPORARY_HOSTS, content)
        .and_then(|()| mount(Some(TEMPORARY_HOSTS), HOSTS, None, libc::MS_BIND));
    // SAFETY: the path is a string that lives across the call.
    check(unsafe { libc::umount2(TEMPORARY.as_ptr(), libc::MNT_DETACH) })?;
    named
}

fn write_file(path: &CStr, content: &[u8]) -> io::Result<()> {
    // SAFETY: the path is a string, the buffer valid for its length, and the descriptor this function's own.
    unsafe {
        let fd = check(libc::open(
            path.as_ptr(),
            libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC,
            0o644,
        ))?;
        let written = libc::write(fd, content.as_ptr().cast(), content.len());
        libc::close(fd);
        if written == content.len() as isize {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let pointer = |s: Option<&CStr>| s.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: each pointer is null or a string that lives across the call.
    check(unsafe {
        libc::mount(
            pointer(source),
            target.as_ptr(),
            pointer(kind),
            flags,
            ptr::null(),
        )
    })
    .map(drop)
}

fn die_with_parent() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

/// capabilities(7): a program started by another user than root has the ambient capabilities, and only
/// those that are inheritable can be ambient.
fn hand_on_rights() -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    /// CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW.
    const RIGHTS: [u32; 3] = [10, 12, 13];
    let header = [VERSION_3, 0];
    // Effective, permitted and inheritable of the first 32 capabilities, then of the others.
    let mut sets = [0u32; 6];
    // SAFETY: the kernel fills in the sets, whose number goes with the version, and reads them again.
    unsafe {
        check(libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) as libc::c_int)?;
        sets[2] |= RIGHTS.iter().fold(0, |set, right| set | 1 << right);
        check(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) as libc::c_int)?;
    }
    for right in RIGHTS {
        // SAFETY: no pointers.
        check(unsafe {
            libc::prctl(
                libc::PR_CAP_AMBIENT,
                libc::PR_CAP_AMBIENT_RAISE,
                right,
                0,
                0,
            )
        })?;
    }
    Ok(())
}

fn block_all() {
    // SAFETY: zeroes are a value of this type, and the calls fill in what they are given.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
    }
}

/// The command gets no blocked signal from us: with SIGTERM blocked, nobody could ask it to end.
fn unblock_all() {
    // SAFETY: as above.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

fn fork() -> io::Result<libc::pid_t> {
    // SAFETY: the process has one thread, being fresh from a fork itself.
    check(unsafe { libc::fork() })
}

fn exit(code: i32) -> ! {
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(code) }
}
