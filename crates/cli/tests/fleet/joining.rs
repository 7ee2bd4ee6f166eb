//! Points that join a hub which has no room for them at first.

use super::{hub, join, plan, wait};
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use testkit::TempDir;

/// Passes bytes on until one side ends.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Address before a hub that turns the first connections away, as a hub does that has too many.
fn busy_at_first(hub: String, turned_away: usize) -> String {
    let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = door.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        for (n, stream) in door.incoming().flatten().enumerate() {
            if n < turned_away {
                continue;
            }
            let inside = TcpStream::connect(&hub).expect("the hub listens");
            let (a, b) = (stream.try_clone().unwrap(), inside.try_clone().unwrap());
            thread::spawn(move || pass(a, b));
            thread::spawn(move || pass(inside, stream));
        }
    });
    address
}

#[test]
fn a_point_that_a_busy_hub_turns_away_comes_again_and_joins() {
    let dir = TempDir::new("fleet-busy");
    let (data, home, plan) = (dir.at("hub"), dir.at("agent"), plan(&dir));
    let (_hub, address) = hub(&data, "127.0.0.1:0");
    let door = busy_at_first(address, 2);
    let (_point, _) = join(&data, &home, &door, &plan);
    wait(&data, "a recording", |p| {
        p["recordings"].as_u64() >= Some(1)
    });
}
