//! `tailback agent`: a measuring point of a fleet.

use crate::Outcome;
use fleet::agent::{Address, Agent, News};
use fleet::{Invitation, ReleaseKey};
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Run a measuring point of a fleet: follow the hub's plan, upload recordings",
    long_about = "Runs a measuring point. It measures by the hub's signed plan, keeps recordings in its directory, uploads each closed one, \
        and deletes it when the hub's signed receipt is there. Without the hub it goes on by its last plan. The first time it needs \
        --join with the hub's address and a one-time code from `tailback hub invite`; it then shows what a point sends, and asks. \
        A release that the hub hands out replaces the program if it is signed with the key that the hub named then, and if what it \
        measures reaches the hub; otherwise the program before goes on.",
    after_help = "Examples:\n  tailback agent --join https://hub.example:8443 CODE\n  tailback agent --data agent\n  tailback agent --data agent --release-key none"
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
    /// Key of the releases that may replace this program, as minisign prints it or its .pub file; `none` forbids them. It is kept
    #[arg(long, value_name = "KEY")]
    release_key: Option<String>,
    /// Delete at the hub what this point has sent, and end its access
    #[arg(long, conflicts_with_all = ["join", "release_key", "json"])]
    withdraw: bool,
    /// Print the news as JSON on standard output, a document a line
    #[arg(long)]
    json: bool,
}

/// Key of releases from the command line: none forbids them.
pub(super) fn release_key(text: &str) -> anyhow::Result<Option<ReleaseKey>> {
    if text == "none" {
        return Ok(None);
    }
    let path = Path::new(text);
    let text = match path.exists() {
        true => ops::read_text(path)?,
        false => text.to_owned(),
    };
    text.parse().map(Some).map_err(super::usage)
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
    if args.withdraw {
        let point = fleet::agent::withdraw(&args.data)?;
        eprintln!("the hub has deleted what {point} sent, and ended its access");
        return Ok(Outcome::Done);
    }
    live::signal::catch_interrupt();
    let news = &mut |news: News<'_>| match news {
        _ if args.json => tell(&news),
        News::Said(text) => eprintln!("{text}"),
        News::Failed(text) => eprintln!("tailback agent: {text}"),
    };
    let stop = &live::signal::interrupted;
    if let Err(e) = fleet::agent::launch(&args.data, news, stop) {
        news(News::Failed(&format!("no release is started: {e:#}")));
    }
    let release_key = args.release_key.as_deref().map(release_key).transpose()?;
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
        let point = fleet::agent::join(&args.data, &hub, &code, news, stop)?;
        eprintln!("joined {hub} as {point}");
    }
    let mut agent = Agent::open(&args.data, super::task::read)?;
    if let Some(key) = release_key {
        agent.trust(key)?;
    }
    match agent.release_key() {
        Some(key) => eprintln!("takes releases that are signed with {key}"),
        None => eprintln!("takes no releases"),
    }
    eprintln!(
        "measuring as {} with {}; Ctrl-C ends it",
        agent.point(),
        fleet::Version::running()
    );
    agent.run(news, stop)?;
    Ok(Outcome::Done)
}
