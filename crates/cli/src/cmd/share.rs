//! `tailback share`: sends a recording to a hub, which makes a report page of it.

use super::{print, print_json, usage};
use crate::Outcome;
use fleet::Invitation;
use fleet::agent::Address;
use fleet::share::{Prepared, Shared, Terms};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Characters of a text that are shown.
const SHOWN: usize = 60;

#[derive(clap::Args)]
#[command(
    about = "Send a recording to a hub, which makes a report page with an address of its own",
    long_about = "Sends one recording to a hub, which checks it and makes a report page of it. The page's address is random; whoever \
        knows it reads the page. The command first shows what will be sent, then the hub's text about it, and asks. It prints the \
        address and a token, which withdraws the recording. The hub's operator gives the one-time code \
        (`tailback hub invite --share`).",
    after_help = "Examples:\n  tailback share t.rec --dry-run\n  tailback share t.rec --hub https://hub.org:8443 CODE\n  \
        tailback share --withdraw ADDRESS TOKEN"
)]
pub struct Args {
    /// Recording to send
    #[arg(value_name = "RECORDING", required_unless_present = "withdraw")]
    recording: Option<PathBuf>,
    /// Hub that makes the page, and the one-time code
    #[arg(long, num_args = 2, value_names = ["HUB", "CODE"], required_unless_present_any = ["withdraw", "dry_run"])]
    hub: Vec<String>,
    /// Show what would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Agree to this version of the hub's text, without the question
    #[arg(long, value_name = "VERSION", requires = "hub")]
    consent: Option<String>,
    /// Delete a shared recording and its page
    #[arg(long, num_args = 2, value_names = ["ADDRESS", "TOKEN"], conflicts_with_all = ["recording", "hub", "dry_run", "consent"])]
    withdraw: Vec<String>,
    /// Print the content, the address and the token as JSON
    #[arg(long)]
    json: bool,
}

/// Text with at most [`SHOWN`] characters; --json has the whole.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Lists what will be sent.
fn listed(content: &Shared) -> String {
    let mut text = format!(
        "{} in {}, {}:\n",
        base::Bytes::new(content.bytes),
        ops::counted(content.files.len() as u64, "file"),
        ops::counted(content.rows, "row")
    );
    for file in &content.files {
        text += &format!("  {}  {}\n", file.path, base::Bytes::new(file.bytes));
    }
    text += "Texts inside:\n";
    for (place, texts) in &content.texts {
        let more = content.texts_counted.get(place).unwrap_or(&0) - texts.len() as u64;
        let more = match more {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        let texts: Vec<String> = texts.iter().map(|t| shortened(t)).collect();
        text += &format!("  {place}: {}{more}\n", texts.join(", "));
    }
    text
}

/// Shows the hub's text, and asks if it is right.
fn agrees(terms: &Terms, given: Option<&str>) -> anyhow::Result<()> {
    eprintln!("{}\nversion {}", terms.text, terms.version);
    match given {
        Some(version) if version == terms.version => return Ok(()),
        Some(version) => {
            return Err(usage(format!(
                "--consent {version} is not the version of the hub's text above, {}; nothing was sent",
                terms.version
            )));
        }
        None => {}
    }
    if std::io::stdin().is_terminal() {
        eprint!("Send it? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
    }
    Err(usage(format!(
        "nothing was sent; --consent {} answers yes to the question",
        terms.version
    )))
}

fn send(prepared: &Prepared, args: &Args) -> anyhow::Result<Shared> {
    let [hub, code] = &args.hub[..] else {
        return Err(usage("--hub takes the hub's address and a code"));
    };
    let hub: Address = hub.parse().map_err(usage)?;
    let code: Invitation = code
        .parse()
        .map_err(|e: anyhow::Error| usage(e.to_string()))?;
    let terms = fleet::share::terms(&hub, &code)?;
    if prepared.content.bytes > terms.largest_bytes {
        return Err(usage(format!(
            "the recording has {}, and {hub} takes at most {}; nothing was sent",
            base::Bytes::new(prepared.content.bytes),
            base::Bytes::new(terms.largest_bytes)
        )));
    }
    agrees(&terms, args.consent.as_deref())?;
    let told = &mut |address: &str, token: &str| {
        eprintln!("To withdraw it: tailback share --withdraw {address} {token}");
    };
    fleet::share::share(prepared, &hub, &code, &terms.version, told)
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    if let [address, token] = &args.withdraw[..] {
        fleet::share::withdraw(address, token)?;
        eprintln!("withdrawn: the hub has deleted the recording and its page");
        return Ok(Outcome::Done);
    }
    let Some(recording) = &args.recording else {
        return Err(usage("name a recording"));
    };
    let prepared = fleet::share::prepare(recording)?;
    if !args.json {
        let text = listed(&prepared.content);
        match args.dry_run {
            true => print(&text)?,
            false => eprint!("{text}"),
        }
    }
    let shared = match args.dry_run {
        true => prepared.content.clone(),
        false => send(&prepared, &args)?,
    };
    match &shared.address {
        _ if args.json => print_json(&shared)?,
        Some(address) => print(&format!("{address}\n"))?,
        None => {}
    }
    Ok(Outcome::Done)
}
