//! `tailback probe nat`, `ports`, `ipv6` and `middlebox` over test networks whose truth is known: the kernel's own
//! translators and filters, and small proxies. Each pair that could be confused is told apart.

use crate::doubles::network::{can_translate, rules, sh};
use crate::doubles::{figure, line, planted, probe, says, serve};
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

#[test]
fn every_kind_of_translator_is_found_for_what_it_is() {
    testkit::real_time_beside(|| {
        let Some(line) = line(2) else { return };
        let near = line.near();
        if !can_translate(near) {
            return;
        }
        sh(line.far(), planted::SECOND_ADDRESS);
        sh(near, &planted::outside());
        let server = serve(&line);
        let asked = || probe(&line, "nat:sockets=6,during=100 ms").0;

        let plain = asked();
        assert_eq!(found(&plain, "translation"), "no");
        assert_eq!(found(&plain, "filtering"), "endpoint-independent");

        rules(near, planted::FIREWALL);
        let firewall = asked();
        assert_eq!(found(&firewall, "translation"), "no");
        assert_eq!(found(&firewall, "filtering"), "address- and port-dependent");

        for nat in planted::nats() {
            let what = nat.what;
            rules(near, &nat.rules());
            let answer = asked();
            assert_eq!(found(&answer, "translation"), "yes", "{what}");
            assert_eq!(found(&answer, "mapping"), nat.mapping, "{what}: {answer}");
            assert_eq!(
                found(&answer, "filtering"),
                nat.filtering,
                "{what}: {answer}"
            );
            let relayed = alerts(&answer).contains("the mapping is");
            assert_eq!(relayed, nat.mapping != "endpoint-independent", "{what}");
            let kept = found(&answer, "ports");
            assert_eq!(kept == "kept", nat.keeps_ports(), "{what}: {kept}");
        }

        rules(near, &planted::by_chance());
        let alternates = asked();
        assert!(alerts(&alternates).contains("alternates"), "{alternates}");
        assert_eq!(figure(&alternates, "external_addresses"), 2.0);
        server.stop();
    });
}

#[test]
fn with_one_address_at_the_server_what_depends_on_addresses_is_not_guessed() {
    testkit::real_time_beside(|| {
        let Some(line) = line(2) else { return };
        if !can_translate(line.near()) {
            return;
        }
        sh(line.near(), &planted::outside());
        let server = serve(&line);
        rules(
            line.near(),
            &planted::translator(&planted::one_address(), None),
        );
        let answer = probe(&line, "nat:sockets=2,during=0 ms").0;
        let mapping = found(&answer, "mapping");
        assert!(
            mapping.contains("needs a second address of the server"),
            "{mapping}"
        );
        assert_eq!(found(&answer, "filtering"), "address- and port-dependent");
        server.stop();
    });
}

/// Lower and upper end of a figure, s.
fn interval(answer: &Value, key: &str) -> (f64, f64) {
    let figures = answer["figures"].as_array().expect("figures");
    let its = figures.iter().find(|f| f["key"] == key);
    let its = &its.unwrap_or_else(|| panic!("no {key} in {answer}"))["figure"];
    let end = |word: &str| its[word].as_f64().unwrap_or_else(|| panic!("{its}")) / 1e3;
    (end("low"), end("high"))
}

#[test]
fn how_long_a_silent_mapping_lives_is_what_the_kernel_was_told() {
    testkit::real_time_beside(|| {
        let Some(line) = line(2) else { return };
        let near = line.near();
        if !can_translate(near) {
            return;
        }
        sh(near, &planted::outside());
        let server = serve(&line);
        let plain = probe(&line, "nat:sockets=2,during=0 ms,lifetime=2s").0;
        let remembered = found(&plain, "a silent socket is remembered");
        assert!(
            remembered.contains("the longest that was tried"),
            "{remembered}"
        );
        rules(near, &planted::translator(&planted::one_address(), None));
        sh(near, &planted::forgets());
        let answer = probe(&line, "nat:sockets=2,during=0 ms,lifetime=8s").0;
        for (key, seconds) in [
            ("lifetime_once_ms", planted::ASKED_S),
            ("lifetime_ms", planted::TALKED_S),
        ] {
            let (low, high) = interval(&answer, key);
            // The kernel counts in ticks of up to 10 ms, and a busy host delays what is sent.
            assert!(
                low < seconds + 0.05 && high > seconds - 0.05,
                "{key}: {low} to {high}"
            );
            assert!(high < 1.6 * low, "{key}: {low} to {high}");
        }
        assert!(
            alerts(&answer).contains("a silent socket is forgotten after"),
            "{answer}"
        );
        server.stop();
    });
}

#[test]
fn ports_that_are_blocked_refused_or_answered_by_somebody_else_are_told_apart() {
    testkit::real_time_beside(|| {
        let Some(line) = line(2) else { return };
        let near = line.near();
        if !can_translate(near) {
            return;
        }
        let server = serve(&line);
        let clean = probe(&line, planted::PORTS).0;
        assert_eq!(figure(&clean, "open"), 10.0, "{clean}");
        assert_eq!(alerts(&clean), "");
        let somebody = crate::doubles::impostor::start(near, planted::IMPOSTOR);
        let taken = line
            .far()
            .run(|| std::net::TcpListener::bind(("10.77.0.2", planted::TAKEN)))
            .expect("enters")
            .expect("binds");
        rules(near, planted::PORT_RULES);
        let answer = probe(&line, planted::PORTS).0;
        for (port, what) in planted::PORTS_ARE {
            assert_eq!(found(&answer, port), what, "{port}: {answer}");
        }
        drop((somebody, taken));
        server.stop();
    });
}

#[test]
fn boxes_that_read_are_found_and_a_clean_line_has_none() {
    testkit::real_time_beside(|| {
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
        let proxy = crate::doubles::impostor::web(near, planted::PROXY, "10.77.0.2:80");
        let names = crate::doubles::impostor::names(near, planted::FORWARDER, "10.77.0.2:53");
        rules(near, planted::DIVERTED);
        let boxed = probe(&line, "middlebox:eicar=true").0;
        for (what, part) in planted::DIVERTED_IS {
            let said = found(&boxed, what);
            assert!(said.contains(part), "{what}: {said}");
        }
        assert!(
            boxed["alerts"].as_array().is_some_and(|a| a.len() >= 3),
            "{boxed}"
        );
        drop((proxy, names));

        // Nobody reads; options are taken away, pieces do not pass, and port 80 is shut.
        rules(near, planted::WEB_SHUT);
        sh(near, planted::NO_PIECES_UP);
        rules(line.far(), planted::NO_TIMESTAMPS);
        let shut = probe(&line, "middlebox").0;
        for (what, part) in planted::SHUT_IS {
            let said = found(&shut, what);
            assert!(said.contains(part), "{what}: {said}");
        }
        server.stop();
    });
}

#[test]
fn both_versions_of_ip_are_compared_and_what_does_not_pass_is_named() {
    testkit::real_time_beside(|| {
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
            sh(line.near(), planted::V6_BROKEN);
            let broken = probe(&line, "ipv6:count=3").0;
            assert!(says(&broken).contains("IPv4 only"), "{}", says(&broken));
            assert!(alerts(&broken).contains("nothing gets through"), "{broken}");
            sh(line.near(), planted::V6_HOLE);
            let hole = probe(&line, "ipv6:count=3").0;
            assert_eq!(figure(&hole, "path_mtu_bytes"), 1400.0);
            assert!(alerts(&hole).contains("vanish without a word"), "{hole}");
            sh(line.near(), "nft flush ruleset");
        }
        // A host without IPv6 is not one whose IPv6 is broken.
        sh(line.near(), planted::NO_V6);
        let without = probe(&line, "ipv6:count=3").0;
        assert!(
            says(&without).contains("no way to IPv6"),
            "{}",
            says(&without)
        );
        server.stop();
    });
}
