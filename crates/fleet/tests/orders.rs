//! The hub against operators who send anything: names that lead elsewhere, texts of any kind, widths of any size.

mod common;

use common::recording;
use fleet::hub::Hub;
use fleet::{Look, Order, PublicKey, Subject, Task};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::path::Path;
use testkit::TempDir;

/// Texts that orders may have where a name is expected.
const TEXTS: [&str; 14] = [
    "p0",
    "nobody",
    "",
    ".",
    "..",
    "../hub",
    "/etc/passwd",
    "share-0",
    "a\0b",
    "\u{1b}[31m",
    "' or 1=1 --",
    "ü",
    "provider=acme",
    "down=20 furlongs",
];

fn no_runs(_: &str) -> anyhow::Result<Task> {
    anyhow::bail!("these tests have no plans")
}

fn text(rng: &mut StdRng) -> String {
    match rng.random_range(0..20) {
        0 => "x".repeat(rng.random_range(1..100_000)),
        _ => (*TEXTS.choose(rng).expect("some")).to_owned(),
    }
}

fn texts(rng: &mut StdRng) -> Vec<String> {
    let count = rng.random_range(0..4);
    (0..count).map(|_| text(rng)).collect()
}

fn order(rng: &mut StdRng) -> Order {
    let name = text(rng);
    match rng.random_range(0..10) {
        0 => Order::Status,
        1 => Order::Log,
        2 => Order::Plan { text: name },
        3 => Order::RunNow {
            points: texts(rng),
            measurement: name,
        },
        4 => Order::Label {
            point: name,
            labels: texts(rng),
        },
        5 => Order::Report {
            subject: Subject::Points {
                by: rng.random_bool(0.5).then_some(name),
            },
            from: text(rng),
            to: text(rng),
        },
        6 => Order::Report {
            subject: Subject::Point { name },
            from: text(rng),
            to: text(rng),
        },
        7 => Order::Release {
            halt: rng.random_bool(0.5),
        },
        8 => Order::Invite {
            name: rng.random_bool(0.8).then_some(name),
        },
        // p1 stays, so that there is something to lose.
        _ if rng.random_bool(0.5) => Order::Revoke { name },
        _ => Order::Forget { name },
    }
}

/// Names of all files below a directory, sorted.
fn files(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path.display().to_string()),
        }
    }
    all.sort();
    all
}

#[test]
fn orders_of_any_content_are_done_or_refused_and_touch_nothing_else() {
    let seed = std::env::var("ORDER_SEED").ok();
    let seed = seed.map_or(20_261_129, |s| s.parse().expect("a number"));
    println!("ORDER_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let dir = TempDir::new("orders");
    let elsewhere = dir.file("elsewhere", "a file of somebody else");
    let hub = Hub::open(dir.at("hub").as_ref(), no_runs).expect("a hub");
    for (number, name) in ["p0", "p1"].into_iter().enumerate() {
        let code = hub.invite(name).expect("a code");
        hub.enrol(&code.secret, &PublicKey([number as u8 + 1; 32]), "v")
            .expect("it joins");
        let (path, manifest) = recording(&dir, &format!("{name}.rec"), "watch", 50);
        for part in &manifest.files {
            let bytes = std::fs::read(path.join(&part.path)).expect("it is there");
            hub.put(name, &manifest.recording, &part.path, 0, &bytes)
                .expect("it arrives");
        }
        hub.close(name, &manifest).expect("it is stored");
    }
    let of_p1 = Path::new(&dir.at("hub")).join("points/p1");
    let before = files(&of_p1);
    assert!(!before.is_empty());
    let (mut done, mut refused) = (0, 0);
    for _ in 0..600 {
        let order = order(&mut rng);
        // Over the wire and back, as the hub gets it.
        let sent = serde_json::to_string(&order).expect("JSON");
        let order: Order = serde_json::from_str(&sent).expect("an order");
        let look = Look {
            table: *[0, 40, usize::MAX].choose(&mut rng).expect("some"),
            columns: *[0, 80, usize::MAX].choose(&mut rng).expect("some"),
            colour: rng.random_bool(0.5),
            unicode: rng.random_bool(0.5),
        };
        match hub.obey(&order, look, &mut ()) {
            Ok(_) => done += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(
        done > 100 && refused > 100,
        "{done} done, {refused} refused"
    );
    assert_eq!(files(&of_p1), before);
    assert_eq!(
        std::fs::read_to_string(elsewhere).expect("it is there"),
        "a file of somebody else"
    );
    let status = hub.status().expect("the hub lives");
    assert!(status.points.iter().any(|p| p.name == "p1"));
}
