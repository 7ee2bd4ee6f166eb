//! Text to which the owner of a point agrees before it joins.

use measure::keys::hex;
use sha2::{Digest, Sha256};

/// Data that a point sends, and actions that a hub may order. Each change of it makes a new version, to which points agree anew when
/// they join.
pub const CONSENT: &str = "\
A point of a fleet sends to its hub:
- recordings of the measurements in the hub's plan: times, sizes and fates of its own probes and loads, the servers'
  names and addresses, the routes to them where the plan asks for them;
- the byte counters and the name of the interface in use, which show when this link is used, and how much;
- facts of this host: kernel, processors, clock source, settings of the interface, load;
- at the plan's interval its state: version, clock, free disk space, outcome of each run.
It sends no content of others' packets, no addresses of others, and no names of networks or persons.

The hub's operator chooses the servers, the times and the amount of measuring traffic, within the plan's budgets. The
plan cannot read files, run commands or open ports. To end it: stop the agent, delete its directory, and ask the
operator to run `tailback hub revoke`.
";

/// Version of the text: its SHA-256, hexadecimal.
pub(crate) fn version() -> String {
    hex(&Sha256::digest(CONSENT))
}
