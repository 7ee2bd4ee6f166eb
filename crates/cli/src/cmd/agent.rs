//! `tailback agent`: a measuring point of a fleet.

use crate::Outcome;
use fleet::Invitation;
use fleet::agent::{Address, Agent, News};
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Run a measuring point of a fleet: follow the hub's plan, upload recordings",
    long_about = "Runs a measuring point. It measures by the hub's signed plan, keeps recordings in its directory, uploads each closed one, \
        and deletes it when the hub's signed receipt is there. Without the hub it goes on by its last plan. The first time it needs \
        --join with the hub's address and a one-time code from `tailback hub invite`; it then shows what a point sends, and asks.",
    after_help = "Examples:\n  tailback agent --join https://hub.example:8443 CODE\n  tailback agent --data agent"
)]
pub struct Args {
    /// Directory of the agent: its key, its plan and the recordings that are not uploaded yet
    #[arg(long, value_name = "DIRECTORY", default_value = "agent")]
    data: PathBuf,
    /// Hub to join, and the one-time code; needed once
    #[arg(long, num_args = 2, value_names = ["HUB", "CODE"])]
    join: Vec<String>,
    /// Agree to what a point sends, without the question; the text is shown in any case
    #[arg(long, requires = "join")]
    agree: bool,
    /// Print the news as JSON on standard output, a document a line
    #[arg(long)]
    json: bool,
}

/// Shows what a point sends, and asks if that is right.
fn agrees(already: bool) -> anyhow::Result<bool> {
    eprintln!("{}", fleet::CONSENT);
    if already || !std::io::stdin().is_terminal() {
        return Ok(already);
    }
    eprint!("Join? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Prints news as a line of JSON. Without a reader the agent goes on.
fn tell(news: &News<'_>) {
    let now = live::clock::wall_ns();
    if let Ok(line) = serde_json::to_string(&news.line(now)) {
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    crate::face::only_as_a_process("agent")?;
    live::signal::catch_interrupt();
    if let [hub, code] = &args.join[..] {
        let hub: Address = hub.parse().map_err(super::usage)?;
        let code: Invitation = code
            .parse()
            .map_err(|e: anyhow::Error| super::usage(e.to_string()))?;
        if !Agent::has_joined(&args.data) && !agrees(args.agree)? {
            return Err(super::usage(
                "not joined; --agree answers yes to the question",
            ));
        }
        let point = fleet::agent::join(&args.data, &hub, &code)?;
        eprintln!("joined {hub} as {point}");
    }
    let mut agent = Agent::open(&args.data, super::task::read)?;
    eprintln!("measuring as {}; Ctrl-C ends it", agent.point());
    let news = &mut |news: News<'_>| match news {
        _ if args.json => tell(&news),
        News::Said(text) => eprintln!("{text}"),
        News::Failed(text) => eprintln!("tailback agent: {text}"),
    };
    agent.run(news, &live::signal::interrupted)?;
    Ok(Outcome::Done)
}
