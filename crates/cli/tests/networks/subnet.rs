//! `tailback neighbours`: hosts of the own subnet, and their services by multicast DNS and SSDP. A liar in another subnet
//! and a host that is not there are not found.

use crate::doubles::network::sh;
use crate::doubles::{TAILBACK, line};
use serde_json::Value;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::Program;

/// Name in the form of the DNS.
fn name(text: &str) -> Vec<u8> {
    let labels = text
        .split('.')
        .flat_map(|l| [&[l.len() as u8][..], l.as_bytes()].concat());
    labels.chain([0]).collect()
}

fn record(owner: &str, rtype: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = name(owner);
    bytes.extend(rtype.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 0, 10]);
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Answer of the printer at 10.88.0.1, which also claims the name of another host.
fn answer(question: &[u8]) -> Vec<u8> {
    let asks = |text: &str| question.windows(text.len()).any(|w| w == text.as_bytes());
    let records = match asks("_services") {
        true => vec![record(
            "_services._dns-sd._udp.local",
            12,
            &name("_ipp._tcp.local"),
        )],
        false => vec![
            record("_ipp._tcp.local", 12, &name("Laser._ipp._tcp.local")),
            record(
                "Laser._ipp._tcp.local",
                33,
                &[&[0, 0, 0, 0, 2, 119][..], &name("laser.local")].concat(),
            ),
            record("laser.local", 1, &[10, 88, 0, 1]),
            record("router.local", 1, &[10, 88, 0, 9]),
        ],
    };
    let mut bytes = vec![0, 0, 0x84, 0, 0, 0, 0, records.len() as u8, 0, 0, 0, 0];
    bytes.extend(records.concat());
    bytes
}

/// Answers what is sent to a group, until it is told to stop.
fn respond(group: Ipv4Addr, port: u16, stop: &AtomicBool, answer: &dyn Fn(&[u8]) -> Vec<u8>) {
    let socket = UdpSocket::bind(("0.0.0.0", port)).expect("the port");
    socket
        .join_multicast_v4(&group, &Ipv4Addr::new(10, 88, 0, 1))
        .expect("the group");
    let soon = std::time::Duration::from_millis(50);
    socket.set_read_timeout(Some(soon)).expect("a time-out");
    let mut buf = [0; 2000];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((n, from)) = socket.recv_from(&mut buf) {
            let _ = socket.send_to(&answer(&buf[..n]), from);
        }
    }
}

/// Command that gives an interface of an emulated line IPv6, which those lack.
fn with_v6(interface: &str) -> String {
    let of = format!("/proc/sys/net/ipv6/conf/{interface}");
    format!("echo 0 > {of}/disable_ipv6 && echo 0 > {of}/addr_gen_mode")
}

#[test]
fn hosts_and_services_of_the_own_subnet_are_found_and_no_others() {
    testkit::real_time_beside(|| {
        let Some(line) = line(2) else { return };
        let mut sleep = Command::new("sleep");
        let sleep = line.far().command(sleep.arg("60")).spawn();
        let mut sleep = sleep.expect("sleep(1)");
        let pid = sleep.id();
        sh(
            line.near(),
            &format!(
                "ip link add lan0 type veth peer name lan1 && ip link set lan1 netns {pid} &&
                 ip addr add 10.88.0.2/26 dev lan0 && {} && ip link set lan0 up",
                with_v6("lan0")
            ),
        );
        sh(
            line.far(),
            &format!(
                "for i in 1 7 9; do ip addr add 10.88.0.$i/26 dev lan1; done
                 {} && ip link set lan1 up; sleep 2",
                with_v6("lan1")
            ),
        );
        let stop = Arc::<AtomicBool>::default();
        let (mdns, ssdp) = (stop.clone(), stop.clone());
        let threads = [
            line.far().spawn("mdns", move || {
                respond([224, 0, 0, 251].into(), 5353, &mdns, &answer);
            }),
            line.far().spawn("ssdp", move || {
                let says = b"HTTP/1.1 200 OK\r\nST: urn:schemas-upnp-org:device:MediaServer:1\r\nSERVER: Box/1\r\n\r\n";
                respond([239, 255, 255, 250].into(), 1900, &ssdp, &|_| says.to_vec());
            }),
        ];
        let mut command =
            Program::new(TAILBACK).command(&["neighbours", "--interface", "lan0", "--json"]);
        let out = line
            .near()
            .command(&mut command)
            .output()
            .expect("tailback runs");
        stop.store(true, Ordering::Relaxed);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{told}");
        let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let hosts = found["hosts"].as_array().expect("hosts");
        let v4: Vec<&str> = hosts
            .iter()
            .filter_map(|h| h["address"].as_str())
            .filter(|a| !a.contains(':'))
            .collect();
        assert_eq!(v4, ["10.88.0.1", "10.88.0.7", "10.88.0.9"], "{found}");
        assert!(
            hosts.iter().any(|h| h["address"]
                .as_str()
                .is_some_and(|a| a.starts_with("fe80:"))),
            "{found}"
        );
        let first = &hosts[0];
        assert_eq!(
            first["names"],
            serde_json::json!(["laser.local"]),
            "{found}"
        );
        let services = serde_json::json!([
            "_ipp._tcp (port 631)",
            "urn:schemas-upnp-org:device:MediaServer:1"
        ]);
        assert_eq!(
            (&first["services"], &first["software"]),
            (&services, &"Box/1".into()),
            "{found}"
        );
        assert!(
            hosts[1]["hardware"].as_str().is_some_and(|h| h.len() == 17),
            "{found}"
        );
        assert_eq!(hosts[2]["names"], serde_json::json!([]), "{found}");
        assert_eq!(found["asked"], "10.88.0.0/26");
        assert!(
            found["sent"]
                .as_u64()
                .is_some_and(|n| (61..80).contains(&n)),
            "{found}"
        );
        let _ = sleep.kill();
        let _ = sleep.wait();
        drop(threads);
    });
}
