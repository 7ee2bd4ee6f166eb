//! Capabilities of the calling thread (capabilities(7)).

/// linux/capability.h
const LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Takes a capability away for good, also from programs that the process starts.
///
/// # Errors
/// The process may not do so, or the kernel does not know the capability.
pub(crate) fn drop_from_bounding_set(capability: u32) -> nix::Result<()> {
    // SAFETY: the option takes one number and no pointer.
    let done = unsafe {
        libc::prctl(
            libc::PR_CAPBSET_DROP,
            u64::from(capability),
            0u64,
            0u64,
            0u64,
        )
    };
    nix::errno::Errno::result(done).map(drop)
}

/// Sets the effective and permitted capabilities of this thread to these of the first 32; the inheritable set is empty.
///
/// # Errors
/// The thread does not have them.
pub(crate) fn set_capabilities(caps: u32) -> nix::Result<()> {
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
