//! Each RFC that is cited, beside its title, so that a wrong number is seen.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Titles as the RFC index prints them.
const TITLES: &[(u32, &str)] = &[
    (768, "User Datagram Protocol"),
    (791, "Internet Protocol"),
    (792, "Internet Control Message Protocol"),
    (
        826,
        "An Ethernet Address Resolution Protocol: Or Converting Network Protocol Addresses to 48.bit Ethernet Address for Transmission on Ethernet Hardware",
    ),
    (863, "Discard Protocol"),
    (1035, "Domain names - implementation and specification"),
    (1071, "Computing the Internet checksum"),
    (1191, "Path MTU discovery"),
    (
        1624,
        "Computation of the Internet Checksum via Incremental Update",
    ),
    (1812, "Requirements for IP Version 4 Routers"),
    (1918, "Address Allocation for Private Internets"),
    (1982, "Serial Number Arithmetic"),
    (
        2001,
        "TCP Slow Start, Congestion Avoidance, Fast Retransmit, and Fast Recovery Algorithms",
    ),
    (2018, "TCP Selective Acknowledgment Options"),
    (2104, "HMAC: Keyed-Hashing for Message Authentication"),
    (
        2309,
        "Recommendations on Queue Management and Congestion Avoidance in the Internet",
    ),
    (2330, "Framework for IP Performance Metrics"),
    (2364, "PPP Over AAL5"),
    (
        2474,
        "Definition of the Differentiated Services Field (DS Field) in the IPv4 and IPv6 Headers",
    ),
    (2475, "An Architecture for Differentiated Services"),
    (2516, "A Method for Transmitting PPP Over Ethernet (PPPoE)"),
    (2525, "Known TCP Implementation Problems"),
    (2597, "Assured Forwarding PHB Group"),
    (2675, "IPv6 Jumbograms"),
    (2681, "A Round-trip Delay Metric for IPPM"),
    (
        2684,
        "Multiprotocol Encapsulation over ATM Adaptation Layer 5",
    ),
    (2697, "A Single Rate Three Color Marker"),
    (
        2883,
        "An Extension to the Selective Acknowledgement (SACK) Option for TCP",
    ),
    (2923, "TCP Problems with Path MTU Discovery"),
    (3021, "Using 31-Bit Prefixes on IPv4 Point-to-Point Links"),
    (3032, "MPLS Label Stack Encoding"),
    (3042, "Enhancing TCP's Loss Recovery Using Limited Transmit"),
    (
        3148,
        "A Framework for Defining Empirical Bulk Transfer Capacity Metrics",
    ),
    (
        3168,
        "The Addition of Explicit Congestion Notification (ECN) to IP",
    ),
    (3246, "An Expedited Forwarding PHB (Per-Hop Behavior)"),
    (3339, "Date and Time on the Internet: Timestamps"),
    (3357, "One-way Loss Pattern Sample Metrics"),
    (
        3393,
        "IP Packet Delay Variation Metric for IP Performance Metrics (IPPM)",
    ),
    (
        3465,
        "TCP Congestion Control with Appropriate Byte Counting (ABC)",
    ),
    (3522, "The Eifel Detection Algorithm for TCP"),
    (3550, "RTP: A Transport Protocol for Real-Time Applications"),
    (3596, "DNS Extensions to Support IP Version 6"),
    (
        3551,
        "RTP Profile for Audio and Video Conferences with Minimal Control",
    ),
    (3597, "Handling of Unknown DNS Resource Record (RR) Types"),
    (
        3708,
        "Using TCP Duplicate Selective Acknowledgement (DSACKs) and Stream Control Transmission Protocol (SCTP) Duplicate Transmission Sequence Numbers (TSNs) to Detect Spurious Retransmissions",
    ),
    (
        4035,
        "Protocol Modifications for the DNS Security Extensions",
    ),
    (
        4180,
        "Common Format and MIME Type for Comma-Separated Values (CSV) Files",
    ),
    (4193, "Unique Local IPv6 Unicast Addresses"),
    (
        4231,
        "Identifiers and Test Vectors for HMAC-SHA-224, HMAC-SHA-256, HMAC-SHA-384, and HMAC-SHA-512",
    ),
    (4291, "IP Version 6 Addressing Architecture"),
    (4302, "IP Authentication Header"),
    (4303, "IP Encapsulating Security Payload (ESP)"),
    (
        4443,
        "Internet Control Message Protocol (ICMPv6) for the Internet Protocol Version 6 (IPv6) Specification",
    ),
    (4648, "The Base16, Base32, and Base64 Data Encodings"),
    (4737, "Packet Reordering Metrics"),
    (
        4787,
        "Network Address Translation (NAT) Behavioral Requirements for Unicast UDP",
    ),
    (
        5348,
        "TCP Friendly Rate Control (TFRC): Protocol Specification",
    ),
    (5470, "Architecture for IP Flow Information Export"),
    (5481, "Packet Delay Variation Applicability Statement"),
    (
        5549,
        "Advertising IPv4 Network Layer Reachability Information with an IPv6 Next Hop",
    ),
    (5560, "A One-Way Packet Duplication Metric"),
    (5681, "TCP Congestion Control"),
    (
        5682,
        "Forward RTO-Recovery (F-RTO): An Algorithm for Detecting Spurious Retransmission Timeouts with TCP",
    ),
    (
        5705,
        "Keying Material Exporters for Transport Layer Security (TLS)",
    ),
    (5737, "IPv4 Address Blocks Reserved for Documentation"),
    (
        5780,
        "NAT Behavior Discovery Using Session Traversal Utilities for NAT (STUN)",
    ),
    (
        5865,
        "A Differentiated Services Code Point (DSCP) for Capacity-Admitted Traffic",
    ),
    (
        5869,
        "HMAC-based Extract-and-Expand Key Derivation Function (HKDF)",
    ),
    (
        5905,
        "Network Time Protocol Version 4: Protocol and Algorithms Specification",
    ),
    (
        6066,
        "Transport Layer Security (TLS) Extensions: Extension Definitions",
    ),
    (6298, "Computing TCP's Retransmission Timer"),
    (
        6335,
        "Internet Assigned Numbers Authority (IANA) Procedures for the Management of the Service Name and Transport Protocol Port Number Registry",
    ),
    (6349, "Framework for TCP Throughput Testing"),
    (
        6582,
        "The NewReno Modification to TCP's Fast Recovery Algorithm",
    ),
    (6585, "Additional HTTP Status Codes"),
    (6598, "IANA-Reserved IPv4 Prefix for Shared Address Space"),
    (
        6675,
        "A Conservative Loss Recovery Algorithm Based on Selective Acknowledgment (SACK) for TCP",
    ),
    (6691, "TCP Options and Maximum Segment Size (MSS)"),
    (6761, "Special-Use Domain Names"),
    (6762, "Multicast DNS"),
    (6763, "DNS-Based Service Discovery"),
    (6817, "Low Extra Delay Background Transport (LEDBAT)"),
    (6864, "Updated Specification of the IPv4 ID Field"),
    (6891, "Extension Mechanisms for DNS (EDNS(0))"),
    (6895, "Domain Name System (DNS) IANA Considerations"),
    (6928, "Increasing TCP's Initial Window"),
    (6937, "Proportional Rate Reduction for TCP"),
    (6946, "Processing of IPv6 \"Atomic\" Fragments"),
    (7323, "TCP Extensions for High Performance"),
    (7464, "JavaScript Object Notation (JSON) Text Sequences"),
    (
        7567,
        "IETF Recommendations Regarding Active Queue Management",
    ),
    (
        7587,
        "RTP Payload Format for the Opus Speech and Audio Codec",
    ),
    (
        7594,
        "A Framework for Large-Scale Measurement of Broadband Performance (LMAP)",
    ),
    (7661, "Updating TCP to Support Rate-Limited Traffic"),
    (
        7679,
        "A One-Way Delay Metric for IP Performance Metrics (IPPM)",
    ),
    (
        7680,
        "A One-Way Loss Metric for IP Performance Metrics (IPPM)",
    ),
    (7766, "DNS Transport over TCP - Implementation Requirements"),
    (7838, "HTTP Alternative Services"),
    (
        7928,
        "Characterization Guidelines for Active Queue Management (AQM)",
    ),
    (8032, "Edwards-Curve Digital Signature Algorithm (EdDSA)"),
    (
        8033,
        "Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to Address the Bufferbloat Problem",
    ),
    (
        8034,
        "Active Queue Management (AQM) Based on Proportional Integral Controller Enhanced (PIE) for Data-Over-Cable Service Interface Specifications (DOCSIS) Cable Modems",
    ),
    (8198, "Aggressive Use of DNSSEC-Validated Cache"),
    (8200, "Internet Protocol, Version 6 (IPv6) Specification"),
    (8201, "Path MTU Discovery for IP version 6"),
    (
        8257,
        "Data Center TCP (DCTCP): TCP Congestion Control for Data Centers",
    ),
    (8289, "Controlled Delay Active Queue Management"),
    (
        8290,
        "The Flow Queue CoDel Packet Scheduler and Active Queue Management Algorithm",
    ),
    (
        8446,
        "The Transport Layer Security (TLS) Protocol Version 1.3",
    ),
    (8489, "Session Traversal Utilities for NAT (STUN)"),
    (8511, "TCP Alternative Backoff with ECN (ABE)"),
    (8555, "Automatic Certificate Management Environment (ACME)"),
    (
        8622,
        "A Lower-Effort Per-Hop Behavior (LE PHB) for Differentiated Services",
    ),
    (
        8737,
        "Automated Certificate Management Environment (ACME) TLS Application-Layer Protocol Negotiation (ALPN) Challenge Extension",
    ),
    (
        8738,
        "Automated Certificate Management Environment (ACME) IP Identifier Validation Extension",
    ),
    (8762, "Simple Two-Way Active Measurement Protocol"),
    (
        8899,
        "Packetization Layer Path MTU Discovery for Datagram Transports",
    ),
    (8952, "Captive Portal Architecture"),
    (
        8972,
        "Simple Two-Way Active Measurement Protocol Optional Extensions",
    ),
    (8985, "The RACK-TLP Loss Detection Algorithm for TCP"),
    (8999, "Version-Independent Properties of QUIC"),
    (9000, "QUIC: A UDP-Based Multiplexed and Secure Transport"),
    (9001, "Using TLS to Secure QUIC"),
    (9002, "QUIC Loss Detection and Congestion Control"),
    (9097, "Metrics and Methods for One-Way IP Capacity"),
    (
        9106,
        "Argon2 Memory-Hard Function for Password Hashing and Proof-of-Work Applications",
    ),
    (9110, "HTTP Semantics"),
    (9112, "HTTP/1.1"),
    (9113, "HTTP/2"),
    (9114, "HTTP/3"),
    (9293, "Transmission Control Protocol (TCP)"),
    (9312, "Manageability of the QUIC Transport Protocol"),
    (
        9330,
        "Low Latency, Low Loss, and Scalable Throughput (L4S) Internet Service: Architecture",
    ),
    (
        9331,
        "The Explicit Congestion Notification (ECN) Protocol for Low Latency, Low Loss, and Scalable Throughput (L4S)",
    ),
    (
        9332,
        "Dual-Queue Coupled Active Queue Management (AQM) for Low Latency, Low Loss, and Scalable Throughput (L4S)",
    ),
    (9369, "QUIC Version 2"),
    (9406, "HyStart++: Modified Slow Start for TCP"),
    (9438, "CUBIC for Fast and Long-Distance Networks"),
    (9609, "Initializing a DNS Resolver with Priming Queries"),
    (9715, "IP Fragmentation Avoidance in DNS over UDP"),
    (
        9768,
        "More Accurate Explicit Congestion Notification (AccECN) Feedback in TCP",
    ),
    (9773, "ACME Renewal Information (ARI) Extension"),
    (9937, "Proportional Rate Reduction"),
    (
        9956,
        "A Non-Queue-Building Per-Hop Behavior (NQB PHB) for Differentiated Services",
    ),
    (
        9946,
        "The UDP Speed Test Protocol (UDPSTP) for One-Way IP Capacity Metric Measurement",
    ),
];

const PLACES: &[&str] = &[
    "crates",
    "lab",
    "testkit",
    "docs",
    "scenarios",
    "reference",
    "bench",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
];
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "py", "ts"];
const SKIPPED: &[&str] = &["node_modules", "target", "dist"];

/// The list, one RFC a line: number, title, files.
///
/// # Errors
/// Numbers without a title here.
pub fn check(root: &Path) -> Result<String> {
    let mut cited = BTreeMap::new();
    for place in PLACES {
        let path = root.join(place);
        if path.exists() {
            collect(root, &path, &mut cited)?;
        }
    }
    list(&cited)
}

fn collect(root: &Path, path: &Path, cited: &mut BTreeMap<u32, BTreeSet<String>>) -> Result<()> {
    if path.is_dir() {
        for entry in
            std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?
        {
            let entry = entry?;
            if !SKIPPED.iter().any(|s| entry.file_name() == *s) {
                collect(root, &entry.path(), cited)?;
            }
        }
    } else if path
        .extension()
        .is_some_and(|e| EXTENSIONS.iter().any(|x| e == *x))
    {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let file = path
            .strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string();
        for number in numbers(&text) {
            cited.entry(number).or_default().insert(file.clone());
        }
    }
    Ok(())
}

/// The number after each `RFC`, with or without a space.
fn numbers(text: &str) -> Vec<u32> {
    text.split("RFC")
        .skip(1)
        .filter_map(|rest| {
            let rest = rest.trim_start_matches([' ', '-', '\u{a0}']);
            rest[..rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len())]
                .parse()
                .ok()
        })
        .collect()
}

fn list(cited: &BTreeMap<u32, BTreeSet<String>>) -> Result<String> {
    let (mut out, mut faults) = (String::new(), vec![]);
    for (number, files) in cited {
        let files = files
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        match TITLES.iter().find(|(n, _)| n == number) {
            Some((_, title)) => writeln!(out, "RFC {number}  {title}\n    {files}")?,
            None => faults.push(format!("RFC {number} ({files}) has no title in xtask/src/cites.rs: add it, as the RFC index has it")),
        }
    }
    if faults.is_empty() {
        Ok(out)
    } else {
        bail!("{}", faults.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_however_they_are_written() {
        assert_eq!(
            numbers("RFC 8289, (RFC8290) and RFC-791; RFCs, RFC x"),
            [8289, 8290, 791]
        );
    }

    #[test]
    fn a_number_without_a_title_fails_and_is_named() {
        let cited = |n| BTreeMap::from([(n, BTreeSet::from(["a.rs".to_owned()]))]);
        assert!(
            list(&cited(8289))
                .unwrap()
                .starts_with("RFC 8289  Controlled Delay Active Queue Management\n")
        );
        let said = list(&cited(8298)).unwrap_err().to_string();
        assert!(said.starts_with("RFC 8298 (a.rs) has no title"), "{said}");
    }
}
