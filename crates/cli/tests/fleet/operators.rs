//! Operators at other machines than the hub's, and those who would like to be some.

use super::{agent, hub, keeps, plan, program, stored, wait};
use serde_json::Value;
use testkit::TempDir;

/// Standard output of a program, if it has done what it was asked for.
#[track_caller]
fn told(args: &[&str]) -> String {
    let output = program().run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Text of a failure, with the exit code of a refusal.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let output = program().run(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_operator_at_another_machine_does_what_one_at_the_hub_does() {
    let dir = TempDir::new("fleet-operator");
    let (data, home) = (dir.at("hub"), dir.at("agent"));
    let (_hub, address) = hub(&data, "127.0.0.1:0");
    let url = format!("https://{address}");
    let made = program().json(&[
        "hub", "operator", "--data", &data, "--name", "anna", "--json",
    ]);
    keeps("hub-operator", &made);
    let token = dir.file("anna.token", made["token"].as_str().expect("a token"));
    let far = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--hub", &*url, "--token", &*token]);
        all.into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let ask = |args: &[&str]| {
        let all = far(args);
        told(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let ask_in_vain = |args: &[&str]| {
        let all = far(args);
        refused(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };

    // All orders, from an empty fleet to a point that is forgotten.
    let code = ask(&["hub", "invite", "--name", "village-17"]);
    assert_eq!(ask(&["fleet", "plan", &plan(&dir)]), "plan 1\n");
    let _agent = agent(&home, &["--join", &url, code.trim(), "--agree"]);
    wait(&data, "a recording", |p| {
        p["recordings"].as_u64() >= Some(1)
    });
    ask(&["fleet", "label", "--name", "village-17", "provider=acme"]);
    let asked: Value = serde_json::from_str(&ask(&[
        "fleet",
        "run-now",
        "cable",
        "--name",
        "village-17",
        "--json",
    ]))
    .unwrap();
    keeps("fleet-run-now", &asked);
    let status: Value = serde_json::from_str(&ask(&["fleet", "status", "--json"])).unwrap();
    keeps("fleet-status", &status);
    assert_eq!(status["points"][0]["name"], "village-17");
    assert!(ask(&["fleet", "status"]).starts_with("1 point, plan 1\n"));
    let page = dir.at("fleet.html");
    let report = ask(&["fleet", "report", "--by", "provider", "--output", &page]);
    assert!(report.contains("acme"), "{report}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("acme"));

    // Faults of the order reach the operator as they would at the hub.
    for args in [
        &["hub", "invite", "--name", "No Name"][..],
        &["fleet", "label", "--name", "nobody", "a=b"],
        &["fleet", "run-now", "nothing", "--name", "village-17"],
        &["fleet", "upgrade", "--halt"],
        &["fleet", "report", "--by", "nothing"],
        &["hub", "revoke", "--name", "nobody"],
    ] {
        let mut near = args.to_vec();
        near.extend(["--data", &data]);
        assert_eq!(ask_in_vain(args), refused(&near), "{args:?}");
    }
    let bad = dir.file("bad.toml", "[[measurement]]\nname = 1\n");
    assert!(ask_in_vain(&["fleet", "plan", &bad]).contains("name"));

    // The log says who it was.
    let log = told(&["fleet", "log", "--data", &data]);
    for line in [
        "operator: made anna an operator",
        "operator anna: invited village-17",
        "operator anna: published plan 1",
        "operator anna: labelled village-17: provider=acme",
        "operator anna: asked village-17 for a run of cable",
    ] {
        assert!(log.contains(line), "{line} is not in\n{log}");
    }
    assert_eq!(ask(&["fleet", "log"]), log);

    ask(&["hub", "forget", "--name", "village-17"]);
    assert_eq!(stored(&data), Vec::<std::path::PathBuf>::new());
}

#[test]
fn nobody_without_a_token_that_holds_operates_a_fleet() {
    let dir = TempDir::new("fleet-stranger");
    let data = dir.at("hub");
    let (_hub, address) = hub(&data, "127.0.0.1:0");
    let url = format!("https://{address}");
    let mint = |data: &str| {
        let text = told(&["hub", "operator", "--data", data, "--name", "anna"]);
        text.trim().to_owned()
    };
    let try_with = |token: &str| {
        let file = dir.file("token", token);
        let output = program().run(&["fleet", "log", "--hub", &url, "--token", &file]);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), why)
    };
    let first = mint(&data);
    assert!(try_with(&first).0);
    let second = mint(&data);
    let (done, why) = try_with(&first);
    assert!(!done && why.contains("not that of an operator"), "{why}");
    assert!(try_with(&format!("{second}\n")).0);
    // Another hub's token; its secret with the pin of this hub.
    let other = mint(&dir.at("other"));
    let (_, why) = try_with(&other);
    assert!(
        why.contains("is not the hub of this code or token"),
        "{why}"
    );
    let forged = format!("{}{}", &other[..44], &second[44..]);
    let (done, why) = try_with(&forged);
    assert!(!done && why.contains("not that of an operator"), "{why}");
    // Text that is no token.
    for wrong in [
        "",
        "to",
        &second[1..],
        &second[..87],
        &second.replace("to", "tw"),
    ] {
        let file = dir.file("token", wrong);
        let why = refused(&["fleet", "log", "--hub", &url, "--token", &file]);
        assert!(why.contains("tailback hub operator"), "{wrong:?}: {why}");
    }
    let why = refused(&["fleet", "log", "--hub", &url]);
    assert!(why.contains("TAILBACK_HUB_TOKEN"), "{why}");
    // A key of a point is none of an operator, and is told nothing.
    told(&[
        "hub", "operator", "--data", &data, "--name", "anna", "--end",
    ]);
    let (done, why) = try_with(&second);
    assert!(!done && why.contains("not that of an operator"), "{why}");
    let why = refused(&[
        "hub", "operator", "--data", &data, "--name", "anna", "--end",
    ]);
    assert!(why.contains("there is no operator anna"), "{why}");
}
