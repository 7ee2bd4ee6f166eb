//! Random bytes from the kernel (getrandom(2)).

use std::io;

/// Fills the buffer.
///
/// # Errors
/// The kernel has no randomness, which does not happen on a running Linux.
pub(crate) fn fill(out: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < out.len() {
        let rest = &mut out[filled..];
        // SAFETY: the kernel writes at most the length of `rest`.
        match unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) } {
            n @ 0.. => filled += n as usize,
            _ => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
    Ok(())
}
