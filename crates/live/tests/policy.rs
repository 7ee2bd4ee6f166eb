//! Gateway and interface towards a destination on a host with policy routing, against `ip route get` of iproute2 and against
//! what was set up. The main table alone, which `/proc/net/route` shows, would be wrong for most of the draws.

use base::rng::{Rng, Streams};
use live::outlet::Outlet;
use live::route;
use nix::sched::{CloneFlags, unshare};
use rand::RngExt as _;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

/// Interfaces, each with a router of both families behind it.
const LINKS: u8 = 4;

fn run(line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|e| format!("{line}: {e}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&out.stderr))),
    }
}

fn router(link: u8) -> (Ipv4Addr, Ipv6Addr) {
    let v6 = Ipv6Addr::new(0xfd00, u16::from(link), 0, 0, 0, 0, 0, 1);
    (Ipv4Addr::new(10, 99, link, 1), v6)
}

/// Makes the interfaces, a default route by the first one in the main table, and one table for each of the others.
fn set_up() -> Result<(), String> {
    run("ip link set lo up")?;
    for link in 0..LINKS {
        let (v4, v6) = router(link);
        let near = Ipv4Addr::from(u32::from(v4) + 1);
        run(&format!(
            "ip link add wan{link} type veth peer name peer{link}"
        ))?;
        run(&format!("ip link set wan{link} up"))?;
        run(&format!("ip link set peer{link} up"))?;
        run(&format!("ip addr add {near}/24 dev wan{link}"))?;
        run(&format!(
            "ip addr add fd00:{link}::2/64 dev wan{link} nodad"
        ))?;
        let table = match link {
            0 => String::new(),
            _ => format!(" table {}", 100 + u32::from(link)),
        };
        run(&format!(
            "ip route add default via {v4} dev wan{link}{table}"
        ))?;
        run(&format!(
            "ip -6 route add default via {v6} dev wan{link}{table}"
        ))?;
    }
    Ok(())
}

/// A network, as `ip` writes it, and an address within it.
fn draw(rng: &mut Rng, v6: bool) -> (String, IpAddr) {
    match v6 {
        false => {
            let (a, b, c) = (rng.random_range(20..90u8), rng.random(), rng.random());
            (format!("{a}.{b}.0.0/16"), Ipv4Addr::new(a, b, c, 7).into())
        }
        true => {
            let (a, b) = (rng.random_range(0..0xffffu16), rng.random());
            (
                format!("2001:{a:x}::/32"),
                Ipv6Addr::new(0x2001, a, b, 0, 0, 0, 0, 7).into(),
            )
        }
    }
}

/// Interface and gateway in the words of `ip route get`.
fn told(ip: IpAddr) -> (String, Option<IpAddr>) {
    let text = run(&format!("ip route get {ip}")).expect("a route");
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |word: &str| {
        let at = words.iter().position(|w| *w == word)?;
        words.get(at + 1).copied()
    };
    let gateway = after("via").map(|g| g.parse().expect("an address"));
    (after("dev").expect("an interface").to_owned(), gateway)
}

fn check(seed: u64) {
    let mut rng = Streams::new(seed).stream("rules");
    let mut drawn = BTreeSet::new();
    for draw_number in 0..60 {
        let v6: bool = rng.random();
        let (network, ip) = draw(&mut rng, v6);
        if !drawn.insert(network.clone()) {
            continue;
        }
        let link = rng.random_range(0..LINKS);
        let family = if v6 { "-6" } else { "-4" };
        if link > 0 {
            let table = 100 + u32::from(link);
            run(&format!("ip {family} rule add to {network} table {table}")).expect("a rule");
        }
        let found = route::to(ip).expect("a route");
        let (v4, six) = router(link);
        let gateway = if v6 { six.into() } else { v4.into() };
        let about = format!("seed {seed}, draw {draw_number}: {ip} in {network}");
        assert_eq!(found.interface, format!("wan{link}"), "{about}");
        assert_eq!(found.gateway, Some(gateway), "{about}");
        assert_eq!((found.interface, found.gateway), told(ip), "{about}");
        let towards = live::path::towards(ip, &Outlet::default()).expect("a gateway");
        assert_eq!(towards.address, gateway, "{about}");
        let socket = (ip, 7117).into();
        let interface = live::traffic::interface_towards(socket).expect("an interface");
        assert_eq!(interface, format!("wan{link}"), "{about}");
    }
    // Neighbours have no gateway; this host itself is behind the loopback interface.
    for link in 0..LINKS {
        let (v4, v6) = router(link);
        for (ip, name) in [
            (IpAddr::from(v4), format!("wan{link}")),
            (IpAddr::from(v6), format!("wan{link}")),
            (Ipv4Addr::from(u32::from(v4) + 1).into(), "lo".to_owned()),
        ] {
            let found = route::to(ip).expect("a route");
            assert_eq!((found.interface, found.gateway), (name, None), "{ip}");
            assert!(
                live::path::towards(ip, &Outlet::default()).is_none(),
                "{ip}"
            );
        }
    }
    run("ip route add unreachable 203.0.113.0/24").expect("a route");
    let none = route::to(Ipv4Addr::new(203, 0, 113, 9).into());
    assert!(none.is_err(), "{none:?}");
}

#[test]
fn the_route_is_the_one_that_policy_routing_chooses() {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let given = std::env::var("POLICY_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed: u64 = given.unwrap_or(fresh);
    eprintln!("POLICY_SEED={seed}");
    // The namespace is that of the thread, and vanishes with it.
    let work = move || {
        let made = unshare(CloneFlags::CLONE_NEWNET).map_err(|e| e.to_string());
        match made.and_then(|()| set_up()) {
            Ok(()) => check(seed),
            Err(why) => {
                assert!(
                    std::env::var("TAILBACK_REQUIRE_NETNS").is_err(),
                    "TAILBACK_REQUIRE_NETNS is set, yet: {why}"
                );
                eprintln!("skipped: {why}");
            }
        }
    };
    let done = std::thread::spawn(work).join();
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}
