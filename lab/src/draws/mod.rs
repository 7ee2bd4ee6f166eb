//! `tailback test` over freshly drawn random links, judged against the truth.
//!
//! `cargo run --release -p lab -- draws --seed 1 --virtual 400`

pub mod family;
pub mod hosts;
pub mod judge;
mod namespaces;
pub mod page;
pub mod results;
pub mod truth;
pub mod virtual_time;

use family::Kind;

/// Arguments of `draws`.
#[derive(clap::Args)]
#[command(about = "Run the test over random links whose truth is known, and judge each figure")]
pub struct Args {
    /// Seed of the draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Links in virtual time
    #[arg(long = "virtual", default_value_t = 0)]
    in_virtual_time: u64,
    /// Links over network namespaces
    #[arg(long, default_value_t = 0)]
    namespaces: u64,
    /// Run this one link of the seed alone in virtual time, and print its answer
    #[arg(long)]
    only: Option<u64>,
    /// Run this one link of the seed alone over namespaces, and print its answer
    #[arg(long)]
    only_namespaces: Option<u64>,
    /// Run links of this family alone, such as "processor"
    #[arg(long)]
    family: Option<String>,
    /// Write the page here
    #[arg(long)]
    page: Option<std::path::PathBuf>,
    /// Write every judged figure here, tab-separated
    #[arg(long)]
    list: Option<std::path::PathBuf>,
    /// Simulations at once; tests over namespaces, which mostly wait, are twice as many
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Runs the draws that are asked for.
///
/// # Errors
/// A draw that cannot be run, a page that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(number) = args.only {
        return virtual_time::one(&family::draw(args.seed, number, Kind::Virtual));
    }
    if let Some(number) = args.only_namespaces {
        let result = namespaces::result(args.seed, number, true)?;
        print!("{}", page::Report::of(args.seed, &[result]).text());
        return Ok(());
    }
    let links = |count, kind| family::numbers(args.seed, count, kind, args.family.as_deref());
    let simulated = links(args.in_virtual_time, Kind::Virtual)?;
    let mut results = results::many(&simulated, args.threads, |number| {
        virtual_time::result(&family::draw(args.seed, number, Kind::Virtual))
    })?;
    let real = links(args.namespaces, Kind::Namespaces)?;
    results.extend(results::many(&real, 2 * args.threads, |number| {
        namespaces::result(args.seed, number, false)
    })?);
    let report = page::Report::of(args.seed, &results);
    print!("{}", report.text());
    if let Some(path) = &args.list {
        std::fs::write(path, report.list())?;
    }
    if let Some(path) = &args.page {
        std::fs::write(path, report.page())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::Verdict;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_draws_every_family_and_discipline_and_a_third_of_clean_links() {
        let draws: Vec<_> = (0..400)
            .map(|n| family::draw(7, n, Kind::Virtual))
            .collect();
        let families: BTreeSet<_> = draws.iter().map(|d| d.family).collect();
        assert_eq!(families.len(), 19, "{families:?}");
        let clean = draws.iter().filter(|d| d.family == family::Family::Clean);
        assert!(clean.count() >= 100);
        let queues: BTreeSet<_> = (draws.iter())
            .flat_map(|d| [d.link.up.queue.name(), d.link.down.queue.name()])
            .collect();
        assert_eq!(queues.len(), link::qdisc::registry::QDISCS.len());
        let again = family::draw(7, 11, Kind::Virtual);
        assert_eq!(again.link, draws[11].link);
        // A link file says all of a link.
        for d in &draws {
            assert_eq!(link::LinkSpec::parse(&d.link.to_toml()).unwrap(), d.link);
        }
    }

    #[test]
    fn twenty_random_links_are_judged() {
        let results = results::many(&(0..20).collect::<Vec<_>>(), 2, |number| {
            virtual_time::result(&family::draw(2026, number, Kind::Virtual))
        })
        .unwrap();
        let report = page::Report::of(2026, &results);
        let total = report.total();
        println!("{}", report.text());
        let wrong: Vec<_> = (results.iter())
            .flat_map(|r| &r.judged)
            .filter(|j| j.verdict == Verdict::Wrong)
            .collect();
        assert!(
            total.wrong * 50 <= total.right + total.wrong,
            "{total:?}: {wrong:#?}"
        );
    }

    /// Links of which a figure was once wrong: a load that still drained in the next phase, and downloads that arrived
    /// twice, passed for others' traffic; flows of one packet each for one queue; a base that moved for a queue or a policer;
    /// a wait with an interval of any width for that of a law; jitter that keeps the order for a queue; packets that were
    /// overtaken for the drops of a law.
    #[test]
    fn what_a_link_leaves_open_is_not_told() {
        for (seed, number, figure) in [
            (20261128, 369, "cross traffic"),
            (20261128, 189, "cross traffic"),
            (333, 193, "discipline"),
            (334, 144, "queue ms"),
            (331, 235, "queue ms"),
            (20261128, 97, "queue bytes"),
            (801, 193, "discipline"),
            (801, 247, "queue bytes"),
            (801, 45, "discipline"),
            (802, 139, "queue ms"),
            (805, 104, "discipline"),
        ] {
            let result = virtual_time::result(&family::draw(seed, number, Kind::Virtual)).unwrap();
            let wrong: Vec<_> = (result.judged.iter())
                .filter(|j| j.figure == figure && j.verdict == Verdict::Wrong)
                .collect();
            assert!(wrong.is_empty(), "{seed}, {number}: {wrong:#?}");
        }
    }
}
