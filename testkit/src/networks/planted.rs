//! Boxes planted in test networks, and the answers that a kind shall give: rules of nftables for the near end, unless they
//! say otherwise, which [`super::network::rules`] sets.

pub const INSIDE: &str = "10.77.0.1";
/// Two addresses outside, which are this end's own too, so that answers come back to it.
pub const OUTSIDE: [&str; 2] = ["10.77.0.101", "10.77.0.102"];

/// Gives the near end its addresses outside; for a shell.
pub fn outside() -> String {
    OUTSIDE
        .map(|a| format!("ip addr add {a}/24 dev link0; "))
        .concat()
}

/// Gives the server a second address; for a shell at the far end.
pub const SECOND_ADDRESS: &str = "ip addr add 10.77.0.3/24 dev link0";
/// Options that name the addresses beside the server's: its second one, its IPv6, and those outside.
pub const ALSO: [&str; 4] = [
    "--also=10.77.0.3",
    "--also=fd77::2",
    "--also=10.77.0.101",
    "--also=10.77.0.102",
];

/// Rules that translate what leaves by `how`, and hand what comes for `OUTSIDE` from `whom` to the inside.
pub fn translator(how: &str, whom: Option<&str>) -> String {
    let inward = whom.map_or_else(String::new, |from| {
        format!(
            "ip daddr {} {from} udp dport 1024-65535 dnat to {INSIDE}",
            OUTSIDE[0]
        )
    });
    format!(
        "set peers {{ type ipv4_addr . inet_service; flags dynamic; size 1000; }}
         chain note {{ type filter hook output priority -200; udp dport 1024-65535 add @peers {{ ip daddr . udp sport }}; }}
         chain out {{ type nat hook postrouting priority 100; ip saddr {INSIDE} ip daddr 10.77.0.2-10.77.0.3 meta l4proto {{ tcp, udp }} {how}; }}
         chain in {{ type nat hook prerouting priority -100; {inward}; }}"
    )
}

/// As Linux does it: ports kept, one way in.
pub fn one_address() -> String {
    format!("snat to {}", OUTSIDE[0])
}

/// Which of two addresses a socket gets is left to chance.
pub fn by_chance() -> String {
    let how = format!(
        "snat to numgen inc mod 2 map {{ 0 : {}, 1 : {} }}",
        OUTSIDE[0], OUTSIDE[1]
    );
    translator(&how, None)
}

/// For so long the kernel remembers who asked once, and who has talked for two seconds, s.
pub const ASKED_S: f64 = 3.0;
pub const TALKED_S: f64 = 6.0;

/// Tells the kernel so (nf_conntrack-sysctl of Linux); for a shell, once something translates.
pub fn forgets() -> String {
    let told = [("", ASKED_S), ("_stream", TALKED_S)];
    told.map(|(which, s)| {
        format!("echo {s} > /proc/sys/net/netfilter/nf_conntrack_udp_timeout{which}; ")
    })
    .concat()
}

/// A translator, and what it is.
pub struct Nat {
    pub what: &'static str,
    pub how: String,
    /// Who may come in.
    pub whom: Option<&'static str>,
    pub mapping: &'static str,
    pub filtering: &'static str,
}

impl Nat {
    pub fn rules(&self) -> String {
        translator(&self.how, self.whom)
    }

    pub fn keeps_ports(&self) -> bool {
        !self.how.contains("random")
    }
}

pub const FREE: &str = "endpoint-independent";
pub const BY_ADDRESS: &str = "address-dependent";
pub const BY_BOTH: &str = "address- and port-dependent";

pub fn nats() -> [Nat; 5] {
    let one = one_address();
    [
        Nat {
            what: "translator as Linux has it",
            how: one.clone(),
            whom: None,
            mapping: FREE,
            filtering: BY_BOTH,
        },
        Nat {
            what: "translator that lets everybody in",
            how: one.clone(),
            whom: Some(""),
            mapping: FREE,
            filtering: FREE,
        },
        Nat {
            what: "translator that lets in whom anything was sent to, from any port",
            how: one.clone(),
            whom: Some("ip saddr . udp dport @peers"),
            mapping: FREE,
            filtering: BY_ADDRESS,
        },
        Nat {
            what: "translator with a port for each destination",
            how: format!("{one}:20000-60000 fully-random"),
            whom: None,
            mapping: BY_BOTH,
            filtering: BY_BOTH,
        },
        Nat {
            what: "translator with an address for each address beyond",
            how: format!(
                "snat to ip daddr map {{ 10.77.0.2 : {}, 10.77.0.3 : {} }}",
                OUTSIDE[0], OUTSIDE[1]
            ),
            whom: None,
            mapping: BY_ADDRESS,
            filtering: BY_BOTH,
        },
    ]
}

/// No translator, but a firewall that lets in only what was asked for.
pub const FIREWALL: &str = "chain in { type filter hook input priority 0; policy drop; iif lo accept; ct state established,related accept; }";

/// The ports that `PORT_RULES` are about, for the kind `ports`.
pub const PORTS: &str =
    "ports:tcp=2001; 2002; 2003; 2004; 2005,udp=3001; 3002; 3003; 3004; 3005,patience=1500 ms";
/// Port of an impostor at the near end.
pub const IMPOSTOR: u16 = 4444;
/// In use at the server, by something else.
pub const TAKEN: u16 = 2005;
pub const PORT_RULES: &str = "chain out { type filter hook output priority 0;
        tcp dport 2001 drop; udp dport 3001 drop;
        tcp dport 2002 reject with tcp reset; udp dport 3002 reject; }
     chain in { type filter hook input priority 0; udp sport 3004 drop; }
     chain there { type nat hook output priority -100;
        tcp dport 2003 redirect to 4444; udp dport 3003 redirect to 4444; }";
pub const PORTS_ARE: [(&str, &str); 10] = [
    ("TCP 2001", "blocked silently"),
    ("TCP 2002", "refused by a box on the way"),
    ("TCP 2003", "answered by somebody else"),
    ("TCP 2004", "open"),
    ("TCP 2005", "cannot tell"),
    ("UDP 3001", "blocked silently"),
    ("UDP 3002", "refused by a box on the way"),
    ("UDP 3003", "answered by somebody else"),
    ("UDP 3004", "the answer is blocked"),
    ("UDP 3005", "open"),
];

/// Ports of the proxy for the web and of the forwarder of names at the near end, to which `DIVERTED` leads.
pub const PROXY: u16 = 8080;
pub const FORWARDER: u16 = 5353;
pub const DIVERTED: &str = "chain there { type nat hook output priority -100;
        tcp dport 80 meta mark != 7 redirect to 8080;
        udp dport 53 meta mark != 7 redirect to 5353; }";
/// Answers that `middlebox` shall give about them, or parts of those.
pub const DIVERTED_IS: [(&str, &str); 4] = [
    ("for the web (HTTP)", "reads and changes"),
    ("for the web (HTTP)", "Via: 1.1 box"),
    (
        "for names (DNS)",
        "the right message passes on port 53, the wrong one is blocked",
    ),
    ("against viruses", "the EICAR test string is changed"),
];

pub const WEB_SHUT: &str =
    "chain out { type filter hook postrouting priority 200; tcp dport 80 drop; }";
/// For a shell.
pub const NO_PIECES_UP: &str = "nft -f - <<'END'\ntable netdev tailback { chain out { type filter hook egress device \"link0\" priority 0; ip frag-off & 0x3fff != 0 drop; }; }\nEND";
/// Clears the ECN field of datagrams that leave.
pub const ECN_CLEARED: &str =
    "chain out { type filter hook postrouting priority 200; ip protocol udp ip ecn set not-ect; }";
/// Rules of the far end that make EF CS1 before the server sees it.
pub const EF_REPLACED: &str =
    "chain in { type filter hook prerouting priority -300; ip dscp ef ip dscp set cs1; }";
/// Drops packets of NQB that arrive.
pub const NQB_DROPPED_DOWN: &str =
    "chain in { type filter hook prerouting priority -300; ip dscp 45 drop; }";
/// At the far end, before the server, so that what is captured there is as it left.
pub const NO_TIMESTAMPS: &str = "chain in { type filter hook prerouting priority -300;
        tcp flags syn tcp option timestamp exists reset tcp option timestamp; }";
/// Answers that `middlebox` shall give about these three, or parts of those.
pub const SHUT_IS: [(&str, &str); 7] = [
    ("for the web (HTTP)", "closes port 80 altogether"),
    ("for names (DNS)", "none found"),
    (
        "that changes options of connections",
        "taken away: timestamps",
    ),
    ("that renumbers connections", "none found"),
    ("that blocks datagrams in pieces, up", "do not arrive"),
    ("that blocks datagrams in pieces, down", "none found"),
    ("against viruses", "not asked for"),
];

/// IPv6 that is configured and broken, but for our server's own port; for a shell.
pub const V6_BROKEN: &str = "nft add table ip6 t; nft 'add chain ip6 t out { type filter hook output priority 0; }'; nft add rule ip6 t out meta l4proto udp drop; nft add rule ip6 t out tcp dport != 7117 drop";
/// Packets of IPv6 above 1400 bytes vanish; for a shell.
pub const V6_HOLE: &str = "nft flush ruleset; nft add table ip6 t; nft 'add chain ip6 t out { type filter hook postrouting priority 200; }'; nft add rule ip6 t out meta length '> 1400' drop";
/// A host without IPv6; for a shell.
pub const NO_V6: &str = "ip -6 addr flush dev link0";

/// Expedited forwarding for all of ICMP: the kernel's own classifier, as routers have them.
pub const ICMP_FIRST: &str =
    "chain out { type filter hook output priority 0; ip protocol icmp ip dscp set ef; }";

/// Mail between servers does not pass.
pub const NO_MAIL: &str = "chain out { type filter hook output priority 0; tcp dport 25 drop; }";
