//! `tailback-lab reproduce` as a person or a script meets it.

use std::process::{Command, Output};

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tailback-lab"))
        .args(args)
        .output()
        .expect("the binary was built")
}

#[test]
fn one_figure_is_run_compared_and_drawn_the_same_each_time() {
    let folder = testkit::TempDir::new("reproduce");
    let out = folder.to_str().unwrap();
    let mut pages = Vec::new();
    for threads in ["1", "3"] {
        let ran = lab(&[
            "reproduce",
            "borlaug-2014/figure-5",
            "--json",
            "-o",
            out,
            "--threads",
            threads,
        ]);
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(json[0]["state"], json[0]["declared"]);
        assert_eq!(json[0]["figures"][0]["printed"], 1.07);
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(read("index.md").contains("(borlaug-2014/figure-9.md)"));
        pages.push((
            read("borlaug-2014/figure-5.md"),
            read("borlaug-2014/figure-5-1.svg"),
        ));
    }
    assert_eq!(pages[0], pages[1]);
}

#[test]
fn without_an_id_all_are_listed_and_a_wrong_one_is_refused() {
    let all = lab(&["reproduce"]);
    let text = String::from_utf8(all.stdout).unwrap();
    assert!(
        text.contains("borlaug-2014/figure-9 ") && text.contains("reproduced"),
        "{text}"
    );
    let wrong = lab(&["reproduce", "borlaug-2014/figrue-9"]);
    assert_eq!(wrong.status.code(), Some(2));
    let told = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        told.contains("Did you mean \"borlaug-2014/figure-9\"?"),
        "{told}"
    );
}
