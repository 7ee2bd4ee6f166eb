//! Frames of an interface through a ring of memory shared with the kernel (packet(7), TPACKET_V2: unlike V3 it shows each
//! frame at once, and cuts it to the size of its slot).

use super::{check, option};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

const BLOCK: usize = 1 << 16;
/// Size of the ring's own header before each frame, with its alignment.
const MARGIN: usize = 128;

/// Packet socket of no protocol: it receives nothing before its ring exists and it is bound to an interface.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointers; a socket that it returns is ours alone.
    let socket = unsafe {
        let fd = libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            0,
        );
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
    set_int(&socket, libc::PACKET_VERSION, version)?;
    Ok(socket)
}

/// Binds the socket to an interface, so that it receives every frame. Returns the kind of its hardware, an `ARPHRD_`
/// number.
pub(crate) fn bind(socket: &OwnedFd, index: u32) -> io::Result<u16> {
    // SAFETY: `sockaddr_ll` is plain data, for which all zeroes is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is valid for the length given, which both calls keep to; the first one only reads it.
    let done = unsafe {
        let fd = socket.as_raw_fd();
        match libc::bind(fd, (&raw const address).cast(), len) {
            0 => libc::getsockname(fd, (&raw mut address).cast(), &raw mut len),
            failed => failed,
        }
    };
    check(done)?;
    Ok(address.sll_hatype)
}

/// Frames since the last call, and the number of them that did not fit into the ring.
pub(crate) fn counts(socket: &OwnedFd) -> io::Result<libc::tpacket_stats> {
    let mut counts = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes of `counts`, both of which live across the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut len,
        )
    };
    check(done)?;
    Ok(counts)
}

/// Sets an option of the packet socket whose value is an integer.
pub(crate) fn set_int(socket: &OwnedFd, option: libc::c_int, value: i32) -> io::Result<()> {
    option::set_int(socket.as_raw_fd(), libc::SOL_PACKET, option, value)
}

/// Lets frames for other hosts come in too, as a mirror port has them.
pub(crate) fn receive_all(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let all = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::PACKET_ADD_MEMBERSHIP, &all)
}

/// Sets an option to a plain C structure without pointers.
fn set_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads the value for its whole length, and every caller passes the plain type of its option.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(done).map(drop)
}

/// Frame in its slot.
pub(crate) struct Frame<'a> {
    /// Captured part of the frame, as much as the slot holds.
    pub data: &'a [u8],
    /// Length on the wire.
    pub wire_len: usize,
    /// Kernel's stamp, wall time, ns.
    pub t_ns: i64,
    /// True if this host sent it.
    pub outgoing: bool,
    /// VLAN tag that the kernel or the card removed: protocol and tag, as they were in the frame.
    pub vlan: Option<(u16, u16)>,
}

/// Memory mapping, and the next slot.
pub(crate) struct Ring {
    base: *mut u8,
    len: usize,
    frame: usize,
    next: usize,
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of the mapping made in `Ring::map`, and no frame outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

impl Ring {
    /// Maps `len` bytes of slots for frames of at least `longest` bytes.
    pub fn map(socket: &OwnedFd, longest: usize, len: usize) -> io::Result<Ring> {
        let frame = (longest + MARGIN).next_power_of_two();
        let request = libc::tpacket_req {
            tp_block_size: BLOCK.max(frame) as u32,
            tp_block_nr: (len / BLOCK.max(frame)) as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (len / frame) as u32,
        };
        set_option(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice; it is unmapped in `drop`.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            base: base.cast(),
            len,
            frame,
            next: 0,
        })
    }

    /// Number of slots.
    pub fn frames(&self) -> usize {
        self.len / self.frame
    }

    /// Hands the oldest frame to `f`, then returns the slot. False if there is none.
    pub fn take(&mut self, f: impl FnOnce(&Frame<'_>)) -> bool {
        // SAFETY: `next` counts whole slots within the mapping, each of which starts with the header that
        // packet(7) describes, with a `sockaddr_ll` behind it. The kernel writes a slot only while its status word is
        // TP_STATUS_KERNEL, which it changes after the rest (read with Acquire) and we change back after the last use
        // (Release). `tp_mac` and `tp_snaplen` are the kernel's and lie within the slot, which the assert makes sure of.
        unsafe {
            let slot = self.base.add(self.next * self.frame);
            let header = slot.cast::<libc::tpacket2_hdr>();
            let status = AtomicU32::from_ptr(&raw mut (*header).tp_status);
            let flags = status.load(Ordering::Acquire);
            if flags & libc::TP_STATUS_USER == 0 {
                return false;
            }
            let (at, len) = (usize::from((*header).tp_mac), (*header).tp_snaplen as usize);
            assert!(at + len <= self.frame, "the kernel's frame leaves its slot");
            let address = slot
                .add(size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT))
                .cast::<libc::sockaddr_ll>();
            let tagged = flags & libc::TP_STATUS_VLAN_VALID != 0;
            let protocol = match flags & libc::TP_STATUS_VLAN_TPID_VALID {
                0 => libc::ETH_P_8021Q as u16,
                _ => (*header).tp_vlan_tpid,
            };
            f(&Frame {
                data: std::slice::from_raw_parts(slot.add(at), len),
                wire_len: (*header).tp_len as usize,
                t_ns: i64::from((*header).tp_sec) * 1_000_000_000 + i64::from((*header).tp_nsec),
                outgoing: (*address).sll_pkttype == libc::PACKET_OUTGOING,
                vlan: tagged.then_some((protocol, (*header).tp_vlan_tci)),
            });
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.next = (self.next + 1) % self.frames();
        true
    }

    pub fn is_empty(&self) -> bool {
        // SAFETY: as in `take`.
        let status = unsafe {
            AtomicU32::from_ptr(
                &raw mut (*self
                    .base
                    .add(self.next * self.frame)
                    .cast::<libc::tpacket2_hdr>())
                .tp_status,
            )
        };
        status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
    }
}
