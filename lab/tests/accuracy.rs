//! The accuracy table, which `make accuracy` writes with the test networks.

use experiment::PROBES;

#[test]
fn every_kind_has_rows_in_the_table_beside_a_truth() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/book/probe/accuracy.md"
    );
    let page = std::fs::read_to_string(page).expect("the page is there");
    // No radio is at hand whose truth is known: docs/book/probe/wifi.md.
    for spec in PROBES.iter().filter(|s| s.entry.name != "wifi") {
        let begin = format!("| {} | ", spec.entry.name);
        let rows = page.lines().filter(|l| l.starts_with(&begin));
        let said = rows.filter(|l| l.ends_with("| yes |")).count();
        assert!(said >= 2, "{}: {said} rows within", spec.entry.name);
    }
}
