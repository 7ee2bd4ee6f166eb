//! `tailback control prove`: blocks with and without control, at the gateway of a house whose modem is emulated.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use testkit::networks::house::{House, Modem, WAN};

const FAR: &str = "10.77.0.2";

fn house() -> Option<House> {
    House::build(
        Path::new(env!("CARGO_BIN_EXE_tailback")),
        &Modem::fixed(6e6, 6.0),
    )
}

fn start(house: &House, more: &[&str]) -> Child {
    let mut args = vec!["prove", "--wan", WAN, "--server", FAR, "--pairs", "6"];
    args.extend([
        "--block",
        "2 s",
        "--wash-out",
        "2 s",
        "--json",
        "-o",
        "proof",
    ]);
    args.extend(more);
    house.command(&args).spawn().expect("it starts")
}

#[test]
fn control_is_proven_to_shorten_the_queue_and_is_off_at_the_end() {
    testkit::real_time_beside(|| {
        let Some(house) = house() else { return };
        let server = house.serve();
        let shown = start(&house, &[]).wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(text.contains("Nothing has been run"), "{text}");
        assert!(house.programs().is_empty());

        let options = ["--go", "--", "--target", "15ms", "-o", "it's control.rec"];
        let ended = start(&house, &options).wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
        let proof: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        println!("{:#}", proof["difference"]);
        assert_eq!(proof["verdict"], "helps", "{proof}");
        assert!(proof["detectable"].as_f64().is_some(), "{proof}");
        assert!(house.programs().is_empty());
        let run = store::read_meta(house.dir.join("it's control.rec")).expect("a recording");
        assert_eq!(run.plan["settings"]["upload"]["target"], "15 ms");
        server.stop();
    });
}

#[test]
fn control_is_off_after_a_kill_and_another_run_is_not_stopped() {
    testkit::real_time_beside(|| {
        let Some(house) = house() else { return };
        let server = house.serve();
        let child = start(&house, &["--go"]);
        let began = Instant::now();
        let until = |attached: bool| {
            while house.programs().is_empty() == attached {
                assert!(began.elapsed() < Duration::from_secs(120), "{attached}");
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        until(true);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("it runs");
        child.wait_with_output().expect("it ends");
        until(false);

        let run = house.start(&["--apply"]);
        let refused = start(&house, &["--go"])
            .wait_with_output()
            .expect("it ends");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains("another `tailback control run`"), "{told}");
        assert!(!house.programs().is_empty());
        testkit::networks::house::end(run, Signal::SIGTERM);
        server.stop();
    });
}
