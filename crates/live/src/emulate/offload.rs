//! Offload, switched off at the two ends, so that each IP packet that reaches the emulator is one real packet with its
//! checksum in place. The kernel still builds large segments and cuts them itself (software GSO) just before the wire.

use super::EmulateError;
use crate::sys::interface::ethtool;

// linux/ethtool.h
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const STRING_LEN: usize = 32;

/// Feature that stays on: the kernel cuts these segments before the device, so this is no offload.
const KEPT: &str = "tx-generic-segmentation";

/// True if a device feature would let a packet reach the wire unfinished.
fn leaves_work(feature: &str) -> bool {
    feature.starts_with("tx-")
        && feature != KEPT
        && (feature.contains("segmentation")
            || feature.contains("checksum")
            || feature == "tx-gso-list")
}

/// Switches offload off for an interface in the calling thread's namespace.
pub(super) fn switch_off(interface: &str) -> Result<(), EmulateError> {
    let failed = || EmulateError::kernel(format!("switch off the offloads of {interface}"));
    let ask = |words: &mut Vec<u32>| ethtool(interface, words).map_err(failed());

    // struct ethtool_sset_info: command, reserved, mask (64 bits), then a count for each bit of the mask.
    let mut info = vec![ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ask(&mut info)?;
    let count = info[4] as usize;

    // struct ethtool_gstrings: command, which set, count, then the strings.
    let mut names = vec![0u32; 3 + count * STRING_LEN / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ask(&mut names)?;
    let bytes: Vec<u8> = names[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();

    // struct ethtool_sfeatures: command, number of blocks, then (which are meant, which of them on) a block of 32.
    let blocks = count.div_ceil(32);
    let mut set = vec![0u32; 2 + blocks * 2];
    set[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
    for (i, name) in bytes.chunks_exact(STRING_LEN).enumerate() {
        let name = std::str::from_utf8(name)
            .unwrap_or_default()
            .trim_end_matches('\0');
        if leaves_work(name) {
            set[2 + i / 32 * 2] |= 1 << (i % 32);
        }
    }
    // Features that the device can never change are reported, not refused: none of them leaves work.
    ask(&mut set)
}

/// Switches generic segmentation on or off: segments of many packets that the kernel cuts just before the interface.
pub(super) fn set_generic(interface: &str, on: bool) -> Result<(), EmulateError> {
    /// Request code of linux/ethtool.h; the value follows the command.
    const ETHTOOL_SGSO: u32 = 0x24;
    let mut words = [ETHTOOL_SGSO, u32::from(on)];
    ethtool(interface, &mut words).map_err(EmulateError::kernel(format!(
        "switch generic segmentation of {interface}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_and_all_kinds_of_segmentation_are_done_before_the_wire() {
        for name in [
            "tx-checksum-ip-generic",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-udp-segmentation",
            "tx-sctp-segmentation",
            "tx-gso-list",
        ] {
            assert!(leaves_work(name), "{name}");
        }
        for name in [
            "tx-generic-segmentation",
            "tx-scatter-gather",
            "rx-checksum",
            "rx-gro",
            "tx-nocache-copy",
        ] {
            assert!(!leaves_work(name), "{name}");
        }
    }
}
