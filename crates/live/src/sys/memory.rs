//! Memory of the process, given back to the system.

/// Gives memory that was used once back to the system: what the allocator holds on to, and those pages of the program
/// itself that only its start needed. The kernel keeps them in its cache, and maps them again if they are needed.
pub fn release() {
    // SAFETY: takes a plain number, and leaves what is in use alone.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    // SAFETY: the function is called for each loaded object while that is loaded, and gets no data.
    unsafe { libc::dl_iterate_phdr(Some(forget_pages), std::ptr::null_mut()) };
}

/// Unmaps the pages of one object's segments that nobody may write to: they are as the file has them.
unsafe extern "C" fn forget_pages(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut libc::c_void,
) -> libc::c_int {
    const PAGE: usize = 4096;
    // SAFETY: dl_iterate_phdr(3) gives a valid object, whose table of segments has `dlpi_phnum` entries.
    let (base, segments) = unsafe {
        let info = &*info;
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        let segments = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info.dlpi_addr as usize, segments)
    };
    for s in segments {
        // The vDSO is no file, and has no write-protected pages of a file: the kernel refuses it.
        if s.p_type == libc::PT_LOAD && s.p_flags & libc::PF_W == 0 {
            let from = (base + s.p_vaddr as usize).next_multiple_of(PAGE);
            let to = (base + s.p_vaddr as usize + s.p_memsz as usize) / PAGE * PAGE;
            if to > from {
                // SAFETY: a private mapping of a file that is never written to reads the same afterwards.
                unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
            }
        }
    }
    0
}
