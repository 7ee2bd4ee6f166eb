//! `tailback probe nat`, `ports`, `ipv6` and `middlebox` over test networks whose truth is known: the kernel's own
//! translators and filters, and small proxies. Each pair that could be confused is told apart.

use crate::doubles::network::{can_translate, rules, sh};
use crate::doubles::{figure, line, probe, says, serve};
use serde_json::Value;

/// What the table says of a property.
fn found<'a>(answer: &'a Value, what: &str) -> &'a str {
    let rows = answer["tables"][0]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|r| r[0] == what);
    row.unwrap_or_else(|| panic!("no {what} in {answer}"))[1]
        .as_str()
        .expect("a text")
}

fn alerts(answer: &Value) -> String {
    let all = answer["alerts"].as_array().expect("alerts");
    let what: Vec<&str> = all.iter().filter_map(|a| a["what"].as_str()).collect();
    what.join("; ")
}

const INSIDE: &str = "10.77.0.1";
/// Two addresses outside, which are this end's own too, so that answers come back to it.
const OUTSIDE: [&str; 2] = ["10.77.0.101", "10.77.0.102"];

/// Rules that translate what leaves by `how`, and hand what comes for `OUTSIDE` from `whom` to the inside.
fn translator(how: &str, whom: Option<&str>) -> String {
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

#[test]
fn every_kind_of_translator_is_found_for_what_it_is() {
    let Some(line) = line(2) else { return };
    let near = line.near();
    if !can_translate(near) {
        return;
    }
    // The second address of the server; and our own outside ones.
    sh(line.far(), "ip addr add 10.77.0.3/24 dev link0");
    for address in OUTSIDE {
        sh(near, &format!("ip addr add {address}/24 dev link0"));
    }
    let server = serve(&line);
    let asked = || probe(&line, "nat:sockets=6,during=100 ms").0;
    let snat = format!("snat to {}", OUTSIDE[0]);

    let plain = asked();
    assert!(
        says(&plain).contains("Nothing translates"),
        "{}",
        says(&plain)
    );
    assert_eq!(found(&plain, "translation"), "no");
    assert_eq!(found(&plain, "filtering"), "endpoint-independent");

    // No translator, but a firewall that lets in only what was asked for.
    rules(
        near,
        "chain in { type filter hook input priority 0; policy drop; iif lo accept; ct state established,related accept; }",
    );
    let firewall = asked();
    assert_eq!(found(&firewall, "translation"), "no");
    assert_eq!(found(&firewall, "filtering"), "address- and port-dependent");

    for (how, whom, mapping, filtering) in [
        // As Linux does it: ports kept, one way in.
        (
            snat.as_str(),
            None,
            "endpoint-independent",
            "address- and port-dependent",
        ),
        // Everybody may come in.
        (
            &snat,
            Some(""),
            "endpoint-independent",
            "endpoint-independent",
        ),
        // Whom anything was sent to may come in, from any port.
        (
            &snat,
            Some("ip saddr . udp dport @peers"),
            "endpoint-independent",
            "address-dependent",
        ),
        // A port of its own for each destination.
        (
            &format!("{snat}:20000-60000 fully-random"),
            None,
            "address- and port-dependent",
            "address- and port-dependent",
        ),
        // An address of its own for each address beyond.
        (
            &format!(
                "snat to ip daddr map {{ 10.77.0.2 : {}, 10.77.0.3 : {} }}",
                OUTSIDE[0], OUTSIDE[1]
            ),
            None,
            "address-dependent",
            "address- and port-dependent",
        ),
    ] {
        rules(near, &translator(how, whom));
        let answer = asked();
        assert_eq!(found(&answer, "translation"), "yes", "{how}");
        assert_eq!(found(&answer, "mapping"), mapping, "{how}: {answer}");
        assert_eq!(
            found(&answer, "filtering"),
            filtering,
            "{how} {whom:?}: {answer}"
        );
        let relayed = alerts(&answer).contains("the mapping is");
        assert_eq!(relayed, mapping != "endpoint-independent", "{how}");
        let kept = found(&answer, "ports");
        assert_eq!(kept == "kept", !how.contains("random"), "{how}: {kept}");
    }

    // Which of two addresses a socket gets is left to chance.
    let chance = format!(
        "snat to numgen inc mod 2 map {{ 0 : {}, 1 : {} }}",
        OUTSIDE[0], OUTSIDE[1]
    );
    rules(near, &translator(&chance, None));
    let alternates = asked();
    assert!(alerts(&alternates).contains("alternates"), "{alternates}");
    assert_eq!(figure(&alternates, "external_addresses"), 2.0);
    server.stop();
}

#[test]
fn with_one_address_at_the_server_what_depends_on_addresses_is_not_guessed() {
    let Some(line) = line(2) else { return };
    if !can_translate(line.near()) {
        return;
    }
    sh(
        line.near(),
        &format!("ip addr add {}/24 dev link0", OUTSIDE[0]),
    );
    let server = serve(&line);
    rules(
        line.near(),
        &translator(&format!("snat to {}", OUTSIDE[0]), None),
    );
    let answer = probe(&line, "nat:sockets=2,during=0 ms").0;
    let mapping = found(&answer, "mapping");
    assert!(
        mapping.contains("needs a second address of the server"),
        "{mapping}"
    );
    assert_eq!(found(&answer, "filtering"), "address- and port-dependent");
    server.stop();
}

#[test]
fn ports_that_are_blocked_refused_or_answered_by_somebody_else_are_told_apart() {
    let Some(line) = line(2) else { return };
    let near = line.near();
    if !can_translate(near) {
        return;
    }
    let server = serve(&line);
    let kind =
        "ports:tcp=2001; 2002; 2003; 2004; 2005,udp=3001; 3002; 3003; 3004; 3005,patience=1500 ms";
    let clean = probe(&line, kind).0;
    assert_eq!(figure(&clean, "open"), 10.0, "{clean}");
    assert_eq!(alerts(&clean), "");
    let somebody = crate::doubles::impostor::start(near, 4444);
    // In use at the server, by something else.
    let taken = line
        .far()
        .run(|| std::net::TcpListener::bind("10.77.0.2:2005"))
        .expect("enters")
        .expect("binds");
    rules(
        near,
        "chain out { type filter hook output priority 0;
            tcp dport 2001 drop; udp dport 3001 drop;
            tcp dport 2002 reject with tcp reset; udp dport 3002 reject; }
         chain in { type filter hook input priority 0; udp sport 3004 drop; }
         chain there { type nat hook output priority -100;
            tcp dport 2003 redirect to 4444; udp dport 3003 redirect to 4444; }",
    );
    let answer = probe(&line, kind).0;
    for (port, what) in [
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
    ] {
        assert_eq!(found(&answer, port), what, "{port}: {answer}");
    }
    drop((somebody, taken));
    server.stop();
}

#[test]
fn boxes_that_read_are_found_and_a_clean_line_has_none() {
    let Some(line) = line(2) else { return };
    let near = line.near();
    if !can_translate(near) {
        return;
    }
    let server = serve(&line);
    let clean = probe(&line, "middlebox:eicar=true").0;
    assert!(
        says(&clean).contains("No box was found that reads, changes or blocks what passes."),
        "{clean}"
    );
    assert!(!says(&clean).contains("Cannot tell"), "{clean}");
    assert_eq!(found(&clean, "against viruses"), "none found");

    // A proxy for the web that adds a header, refuses what is no HTTP, and looks for viruses; a forwarder of names that
    // drops what is none.
    let proxy = crate::doubles::impostor::web(near, 8080, "10.77.0.2:80");
    let names = crate::doubles::impostor::names(near, 5353, "10.77.0.2:53");
    rules(
        near,
        "chain there { type nat hook output priority -100;
            tcp dport 80 meta mark != 7 redirect to 8080;
            udp dport 53 meta mark != 7 redirect to 5353; }",
    );
    let boxed = probe(&line, "middlebox:eicar=true").0;
    let web = found(&boxed, "for the web (HTTP)");
    assert!(
        web.contains("reads and changes") && web.contains("Via: 1.1 box"),
        "{web}"
    );
    let names_found = found(&boxed, "for names (DNS)");
    assert!(
        names_found.contains("the right message passes on port 53, the wrong one is blocked"),
        "{names_found}"
    );
    assert!(
        found(&boxed, "against viruses").contains("the EICAR test string is changed"),
        "{boxed}"
    );
    assert!(
        boxed["alerts"].as_array().is_some_and(|a| a.len() >= 3),
        "{boxed}"
    );
    drop((proxy, names));

    // Nobody reads; options are taken away, pieces do not pass, and port 80 is shut.
    rules(
        near,
        "chain out { type filter hook postrouting priority 200;
            tcp dport 80 drop; }",
    );
    sh(
        near,
        "nft -f - <<'END'\ntable netdev tailback { chain out { type filter hook egress device \"link0\" priority 0; ip frag-off & 0x3fff != 0 drop; }; }\nEND",
    );
    // Before the server, so that what is captured here is as it left.
    rules(
        line.far(),
        "chain in { type filter hook prerouting priority -300;
            tcp flags syn tcp option timestamp exists reset tcp option timestamp; }",
    );
    let shut = probe(&line, "middlebox").0;
    assert!(
        found(&shut, "for the web (HTTP)").contains("closes port 80 altogether"),
        "{shut}"
    );
    assert_eq!(found(&shut, "for names (DNS)"), "none found");
    assert!(
        found(&shut, "that changes options of connections").contains("taken away: timestamps"),
        "{shut}"
    );
    assert_eq!(found(&shut, "that renumbers connections"), "none found");
    assert!(
        found(&shut, "that blocks datagrams in pieces, up").contains("do not arrive"),
        "{shut}"
    );
    assert_eq!(
        found(&shut, "that blocks datagrams in pieces, down"),
        "none found"
    );
    assert!(
        found(&shut, "against viruses").contains("not asked for"),
        "{shut}"
    );
    server.stop();
}

#[test]
fn both_versions_of_ip_are_compared_and_what_does_not_pass_is_named() {
    let Some(line) = line(5) else { return };
    let server = serve(&line);
    let both = probe(&line, "ipv6:count=5").0;
    assert!(
        says(&both).contains("reached over both versions"),
        "{}",
        says(&both)
    );
    assert_eq!(figure(&both, "path_mtu_bytes"), 1500.0);
    assert_eq!(found(&both, "datagrams in pieces, up"), "arrive");
    assert_eq!(found(&both, "datagrams in pieces, down"), "arrive");
    assert_eq!(found(&both, "packets with destination options"), "arrive");
    if can_translate(line.near()) {
        // IPv6 that is configured and broken.
        sh(
            line.near(),
            "nft add table ip6 t; nft 'add chain ip6 t out { type filter hook output priority 0; }'; nft add rule ip6 t out meta l4proto udp drop; nft add rule ip6 t out tcp dport != 7117 drop",
        );
        let broken = probe(&line, "ipv6:count=3").0;
        assert!(says(&broken).contains("IPv4 only"), "{}", says(&broken));
        assert!(alerts(&broken).contains("nothing gets through"), "{broken}");
        // Packets above 1400 bytes vanish.
        sh(
            line.near(),
            "nft flush ruleset; nft add table ip6 t; nft 'add chain ip6 t out { type filter hook postrouting priority 200; }'; nft add rule ip6 t out meta length '> 1400' drop",
        );
        let hole = probe(&line, "ipv6:count=3").0;
        assert_eq!(figure(&hole, "path_mtu_bytes"), 1400.0);
        assert!(alerts(&hole).contains("vanish without a word"), "{hole}");
        sh(line.near(), "nft flush ruleset");
    }
    // A host without IPv6 is not one whose IPv6 is broken.
    sh(line.near(), "ip -6 addr flush dev link0");
    let without = probe(&line, "ipv6:count=3").0;
    assert!(
        says(&without).contains("no way to IPv6"),
        "{}",
        says(&without)
    );
    server.stop();
}
