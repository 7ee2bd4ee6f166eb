//! `tailback load`: loads a link for the test of another machine.

use super::AccessArgs;
use crate::Outcome;
use base::Bytes;
use ops::load::Plan;

#[derive(clap::Args)]
#[command(
    about = "Load a link for the test of another machine",
    long_about = "Makes the loads of a test that runs on another machine behind the same link, so that the queue of the \
        measuring host stays empty. `tailback test SERVER --load-from HOST` starts it on HOST by ssh(1), with the key that \
        ssh has for it, and gives its orders on standard input. It opens no port, and loads the SERVER of its command line \
        and no other, as any client of that server does.",
    after_help = "Examples:\n  \
        tailback test far.example --load-from laptop\n  \
        tailback load far.example --budget 500MB"
)]
pub struct Args {
    /// Server: a name or address, with :PORT if it is not the default port
    server: String,
    /// Upper limit on the payload of all loads, both directions combined
    #[arg(long, default_value = "2GB", value_name = "SIZE")]
    budget: Bytes,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    crate::face::only_as_a_process("load")?;
    let access = args.access.read()?;
    let plan = Plan {
        server: args.server,
        budget: args.budget,
        ipv4: args.ipv4,
        ipv6: args.ipv6,
    };
    ops::load::run(&plan, &access, std::io::stdin(), std::io::stdout().lock())?;
    Ok(Outcome::Done)
}
