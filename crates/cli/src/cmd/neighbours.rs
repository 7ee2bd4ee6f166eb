//! `tailback neighbours`: hosts and services of this host's own subnet.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use ops::neighbours::Plan;

#[derive(clap::Args)]
#[command(
    about = "Find the hosts and services of this host's own subnet",
    long_about = "Finds the hosts of this host's own subnet by ARP and ICMPv6 echo, and their services by multicast DNS and \
        SSDP. It sends one empty datagram to each address of the subnet, at most 253, a hundred each second, and a few \
        questions to the groups. Nothing leaves the subnet. Ask only networks whose owner agrees.",
    after_help = "Examples:\n  tailback neighbours\n  tailback neighbours --interface wlan0 --json"
)]
pub struct Args {
    /// Interface whose subnet is asked [default: the interface towards the Internet]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Print JSON instead of text (schema: schema/neighbours.v1.json)
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        interface: args.interface,
    };
    let answer = ops::neighbours::run(&plan, &mut Console::new())?;
    match args.json {
        true => print_json(&answer)?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(Outcome::Done)
}
