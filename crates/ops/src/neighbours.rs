//! `tailback neighbours`: hosts and services of this host's own subnet.

use crate::progress::{Observer, Shared};
use crate::{Progress, usage};
use report::table::{Column, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the shape in `--json`.
const VERSION: u32 = 1;

/// Interface whose subnet is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Name of the interface; by default the one towards the Internet.
    pub interface: Option<String>,
}

/// Hosts and services of a subnet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Version of the shape.
    pub version: u32,
    /// Interface of the subnet.
    pub interface: String,
    /// Part of the subnet that was asked, such as 192.168.1.0/24.
    pub asked: String,
    /// Number of datagrams that were sent.
    pub sent: u32,
    /// Hosts in the order of their addresses.
    pub hosts: Vec<Host>,
    /// Reasons why hosts may be missing.
    pub doubts: Vec<String>,
}

/// Host as it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Address of IPv4, or link-local one of IPv6.
    pub address: String,
    /// Hardware address; null if the kernel had none.
    pub hardware: Option<String>,
    /// Names that it gives itself.
    pub names: Vec<String>,
    /// Services that it announces.
    pub services: Vec<String>,
    /// Software that it says it runs.
    pub software: Option<String>,
}

/// Asks the subnet.
///
/// # Errors
/// No such interface, or no socket.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    let interface = match &plan.interface {
        Some(name) => name.clone(),
        None => live::neighbours::usual().map_err(|e| {
            usage(format!(
                "no route leads to the Internet ({e}): give --interface"
            ))
        })?,
    };
    observer.say(&format!(
        "Asks the hosts of the subnet of {interface}, about eight seconds."
    ));
    observer.tell(crate::Event::Interruptible);
    let found = live::neighbours::find(&interface, &mut || observer.interrupted())?;
    let mask = u32::MAX
        .checked_shl(32 - u32::from(found.asked_prefix))
        .unwrap_or(0);
    let network = std::net::Ipv4Addr::from(u32::from(found.own) & mask);
    let asked = format!("{network}/{}", found.asked_prefix);
    let mut doubts = Vec::new();
    if found.asked_prefix > found.prefix {
        doubts.push(format!(
            "the subnet is a /{}: hosts outside {asked} were found only if they answer by multicast",
            found.prefix
        ));
    }
    doubts.extend(
        found
            .without_v6
            .map(|why| format!("IPv6 was not asked: {why}")),
    );
    let hosts = found
        .neighbours
        .hosts
        .into_iter()
        .map(|(address, host)| Host {
            address: address.to_string(),
            hardware: host.hardware,
            names: host.names.into_iter().collect(),
            services: host.services.into_iter().collect(),
            software: host.software,
        });
    Ok(Answer {
        version: VERSION,
        interface,
        asked,
        sent: found.sent,
        hosts: hosts.collect(),
        doubts,
    })
}

impl Answer {
    /// Text for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        let heads = ["host", "hardware", "name", "service or software"].map(Column::words);
        let mut table = Table::new("", heads);
        for host in &self.hosts {
            let lines = host.services.iter().chain(&host.software);
            let mut lines = lines.map(String::as_str);
            let names = host.names.join(", ");
            let hardware = host.hardware.clone().unwrap_or_default();
            table.row(
                &*host.address,
                [hardware, names, lines.next().unwrap_or_default().into()],
            );
            for line in lines {
                table.row("", [String::new(), String::new(), line.to_owned()]);
            }
        }
        let mut text = format!(
            "{} answered in {} ({}), of {} datagrams.\n\n",
            crate::counted(self.hosts.len() as u64, "host"),
            self.asked,
            self.interface,
            self.sent
        );
        if !self.hosts.is_empty() {
            text += &table.text(width);
        }
        for doubt in &self.doubts {
            text += &format!("\n  - {doubt}\n");
        }
        text
    }
}
