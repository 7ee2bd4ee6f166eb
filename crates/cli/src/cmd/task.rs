//! Command line of a run in a fleet's plan, read by the parser of the program itself.
//!
//! A plan is data of somebody else. It may choose what is measured; it names no file, command or port of a point. Each
//! option that it may give is listed here, so that a new option is refused until somebody has thought about it.

use super::{monitor, probe, test, usage};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use fleet::Task;
use ops::Plan;

/// Options of all measuring verbs that a plan may give, by their long names; arguments without a name are allowed.
const ALLOWED: &[&str] = &[
    "also",
    "beside-others",
    "budget",
    "congestion",
    "contract",
    "flows",
    "flush",
    "hold-off",
    "interface",
    "interval",
    "ipv4",
    "ipv6",
    "link",
    "longest",
    "lost-after",
    "no-wait",
    "others",
    "phases",
    "pin",
    "seed",
    "title",
    "traffic-interval",
    "udp",
    "virtual",
];

/// Command line of a run: the program's measuring verbs with their own arguments.
#[derive(Parser)]
#[command(
    name = "tailback",
    disable_help_flag = true,
    disable_help_subcommand = true
)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Test(Box<test::Args>),
    Probe(Box<probe::Args>),
    Monitor(Box<monitor::Args>),
}

/// Reads a run's command line, such as `monitor far.example --interval 100ms`.
///
/// # Errors
/// Errors of the command line, another verb than a measurement, an option that a plan must not give.
pub fn read(line: &str) -> anyhow::Result<Task> {
    if line.contains(['"', '\'', '\\']) {
        return Err(usage(
            "words of a run are separated by blanks; it has no quotes",
        ));
    }
    let verb = line.split_whitespace().next();
    if !matches!(verb, Some("test" | "probe" | "monitor")) {
        return Err(usage("a point runs test, probe or monitor"));
    }
    let words = std::iter::once("tailback").chain(line.split_whitespace());
    let matches = Line::command().try_get_matches_from(words);
    let matches = matches.map_err(|e| usage(first_line(&e)))?;
    let parsed = Line::from_arg_matches(&matches).map_err(|e| usage(first_line(&e)))?;
    if let Some((verb, given)) = matches.subcommand() {
        refuse_options(verb, given)?;
    }
    let (plan, pin) = match &parsed.verb {
        Verb::Test(args) => (Plan::Test(Box::new(test::plan(args)?)), args.access.pin),
        Verb::Probe(args) => (Plan::Probe(Box::new(probe::plan(args)?)), args.access.pin),
        Verb::Monitor(args) => {
            let plan = monitor::plan_of(args)?;
            (Plan::Monitor(Box::new(plan)), args.access.pin)
        }
    };
    let virtual_time = match &plan {
        Plan::Test(p) => p.link.is_none() || p.virtual_seed.is_some(),
        Plan::Probe(p) => p.links.is_empty() || p.virtual_seed.is_some(),
        _ => true,
    };
    if !virtual_time {
        return Err(usage(
            "a point measures a real link: name a server, or add --virtual to a link",
        ));
    }
    Ok(Task { plan, pin })
}

/// First line of an error in the arguments, which names the fault; usage and examples follow.
fn first_line(e: &clap::Error) -> String {
    let text = e.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

/// Refuses options that a plan must not give, and links that are files.
fn refuse_options(verb: &str, given: &ArgMatches) -> anyhow::Result<()> {
    let program = Line::command();
    let command = program.find_subcommand(verb);
    let options = command.into_iter().flat_map(clap::Command::get_arguments);
    for option in options.filter(|a| !a.is_positional()) {
        let id = option.get_id().as_str();
        let is_given = given.value_source(id) == Some(ValueSource::CommandLine);
        let name = option.get_long().unwrap_or(id);
        if is_given && !ALLOWED.contains(&name) {
            return Err(usage(format!("a plan cannot give --{name} to a point")));
        }
        if is_given && name == "link" {
            let links = given.get_raw(id).into_iter().flatten();
            let is_file = |l: &str| l.contains('/') || l.contains(".toml");
            if links.into_iter().any(|l| is_file(&l.to_string_lossy())) {
                return Err(usage(
                    "a plan names a link of `tailback list links`, not a file",
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::plan::FleetPlan;

    /// Text that the parser of an option accepts.
    fn value(option: &clap::Arg) -> &'static str {
        match option.get_long().unwrap_or_default() {
            "web" => "127.0.0.1:1",
            "max-size" | "keep-free" => "1 GB",
            "times" => "3",
            name if name.contains("fail") || name.contains("after") || name == "every" => "5s",
            "duration" => "5s",
            _ => "abcdefgh",
        }
    }

    #[test]
    fn the_plan_of_the_book_is_one_that_points_understand() {
        let book = include_str!("../../../../docs/book/fleet.md");
        let (_, after) = book.split_once("```toml\n").expect("a plan in the book");
        let (text, _) = after.split_once("```").expect("the plan's end");
        let plan = FleetPlan::parse(text, read).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
        let servers: Vec<_> = plan.measurements().map(|(_, task)| task.server()).collect();
        assert_eq!(servers, [None, Some("far.example")]);
    }

    #[test]
    fn every_option_that_is_not_listed_is_refused() {
        let program = Line::command();
        let mut refused = 0;
        for start in [
            "test far.example",
            "probe sweep far.example",
            "monitor far.example",
        ] {
            let verb = start.split(' ').next().unwrap_or_default();
            let command = program.find_subcommand(verb).expect("a verb");
            for option in command.get_arguments().filter(|a| !a.is_positional()) {
                let Some(name) = option.get_long() else {
                    continue;
                };
                if ALLOWED.contains(&name) || matches!(name, "help" | "version") {
                    continue;
                }
                let takes_value = option.get_action().takes_values();
                let value = if takes_value {
                    value(option).replace(' ', "")
                } else {
                    String::new()
                };
                let line = format!("{start} --{name} {value}");
                assert!(read(&line).is_err(), "{line}");
                refused += 1;
            }
        }
        assert!(refused > 20, "{refused}");
    }

    #[test]
    fn other_verbs_files_and_emulations_are_refused() {
        for (line, why) in [
            ("", ""),
            ("serve", "test, probe or monitor"),
            ("control eth0", ""),
            ("run /etc/passwd", ""),
            ("analyse x.rec", ""),
            ("test far.example --output /etc/x", "--output"),
            ("monitor far.example --on-outage reboot", "--on-outage"),
            ("monitor far.example --metrics /etc/x", "--metrics"),
            ("monitor --config /etc/passwd", "--config"),
            ("test far.example --key-file /etc/shadow", "--key-file"),
            ("test --link /tmp/x.toml --virtual", "not a file"),
            ("test --link x.toml --virtual", "not a file"),
            ("test --link cable", "--virtual"),
            ("test", "--virtual"),
            ("monitor 'far.example'", "quotes"),
        ] {
            let error = read(line)
                .err()
                .unwrap_or_else(|| panic!("{line} is accepted"));
            assert!(error.to_string().contains(why), "{line}: {error}");
        }
        let task = read("test far.example --budget 5MB --hold-off 20s").expect("a test");
        assert_eq!(task.server(), Some("far.example"));
        let small = task.limited(base::Bytes::new(1000));
        assert_eq!(small.most_bytes(base::Duration::ZERO).get(), 1000);
        // A budget of nothing would end each phase of an emulated test at once.
        let emulated = read("test --link cable --virtual").expect("a test");
        let Plan::Test(plan) = emulated
            .limited(emulated.most_bytes(base::Duration::ZERO))
            .plan
        else {
            panic!("a test")
        };
        assert!(plan.test.budget.get() > 10_000_000, "{}", plan.test.budget);
        assert!(
            read("monitor far.example icmp:192.0.2.1,1s")
                .expect("a monitor")
                .is_endless()
        );
        assert_eq!(
            read("test --link cable --virtual")
                .expect("virtual")
                .server(),
            None
        );
    }
}
