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
plan cannot read files, run commands or open ports. If the hub names a key for releases, the point replaces its program by
releases that are signed with this key. `--release-key none` forbids that.

To end it: `tailback agent --withdraw` deletes at the hub what this point has sent, and ends its access.
";

/// Text to which the sender of a shared recording agrees.
pub const SHARING: &str = "\
You send one recording to this hub. The hub keeps it and makes a report page of it.
- Everybody who knows the page's address reads it without a password. The address has 128 random bits; no list shows it.
- The page and the recording have the servers' names and addresses, the routes that were measured, the times of the
  measurement, the plan, and facts of your host: kernel, interface, load. `tailback share --dry-run` lists them.
- The hub's operator reads the recording itself.
- The recording stays until you withdraw it with its token, or the operator deletes it. Its random name, its times and
  the version of this text stay in the hub's ledger.
";

/// Version of a text: its SHA-256, hexadecimal.
pub(crate) fn version(text: &str) -> String {
    hex(&Sha256::digest(text))
}
