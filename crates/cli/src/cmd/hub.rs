//! `tailback hub`: keeps what the points of a fleet measure.

use super::operator::Of;
use super::{print, print_json, task};
use crate::Outcome;
use base::Bytes;
use fleet::Order;
use fleet::hub::{Dashboard, Hub, Public, Push, Quotas, Sharing, Started, Target};
use ops::tell::Ways;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    about = "Run the hub of a fleet: invite points, hand out the plan, keep recordings",
    long_about = "Runs the hub of a fleet. Each point runs `tailback agent`, follows the hub's signed plan and uploads its recordings. \
        The hub checks each one down to the last row, stores it below points/POINT/, and signs a receipt; only then does the \
        agent delete its copy. The directory holds everything: ledger, keys and recordings, which every verb can read.",
    after_help = "Examples:\n  tailback hub --data hub --listen 0.0.0.0:8443\n  tailback hub invite --data hub --name village-17\n  \
        tailback fleet plan plan.toml --data hub\n  tailback analyse hub/points/village-17/*.rec"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Directory of the hub
    #[arg(long, value_name = "DIRECTORY", default_value = "hub")]
    data: PathBuf,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,
    /// Upper limit on the recordings kept for one point; more stay at the point
    #[arg(long, value_name = "SIZE")]
    quota_per_point: Option<Bytes>,
    /// Upper limit on the recordings kept for all points
    #[arg(long, value_name = "SIZE")]
    quota: Option<Bytes>,
    /// Take shared recordings from holders of a code of `invite --share`, up to this size in all
    #[arg(long, value_name = "SIZE")]
    shared: Option<Bytes>,
    /// Size of the largest shared recording
    #[arg(
        long,
        value_name = "SIZE",
        requires = "shared",
        default_value = "20 MB"
    )]
    shared_each: Bytes,
    /// Address on which to serve the dashboard, such as 127.0.0.1:8118: the state of all points and their latest recordings
    #[arg(long, value_name = "ADDRESS:PORT")]
    web: Option<SocketAddr>,
    /// Token that readers of --web need [default: none on a loopback address, elsewhere a random one, which is printed]
    #[arg(long, value_name = "TEXT", requires = "web")]
    web_token: Option<String>,
    /// Address on which to show groups of points to anybody, without a token: nothing about a single point, and no group of fewer than five
    #[arg(long, value_name = "ADDRESS:PORT", requires = "public_by")]
    public: Option<SocketAddr>,
    /// Label that groups the points for --public, such as provider
    #[arg(long, value_name = "LABEL", requires = "public")]
    public_by: Option<String>,
    /// ClickHouse server that takes the rows of all recordings, too, such as http://127.0.0.1:8123/tailback; the user's password is in
    /// $TAILBACK_CLICKHOUSE_PASSWORD
    #[arg(long, value_name = "URL")]
    clickhouse: Option<Target>,
    /// Command to run when a point gets into trouble or is well again, and when a release halts; $TAILBACK_POINT, $TAILBACK_STATE and
    /// $TAILBACK_WHY say which, what and why
    #[arg(long, value_name = "COMMAND")]
    on_change: Option<String>,
    /// Address to which the same is posted as JSON, with curl(1)
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Mail address to which the same is sent, with sendmail(8)
    #[arg(long, value_name = "ADDRESS")]
    mail: Option<String>,
    /// Print the addresses and the key as JSON once the hub serves
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print a one-time code with which a new point joins, or one recording is shared, within seven days
    Invite {
        #[command(flatten)]
        of: Of,
        /// Name of the point: lower-case letters, digits and -
        #[arg(long, value_name = "NAME", required_unless_present = "share")]
        name: Option<String>,
        /// The code is for `tailback share`: it takes one recording, and no point joins with it
        #[arg(long, conflicts_with = "name")]
        share: bool,
        /// Print the code as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a token with which a person operates the fleet from another machine; each has their own
    Operator {
        /// Directory of the hub
        #[arg(long, value_name = "DIRECTORY", default_value = "hub")]
        data: PathBuf,
        /// Name of the person: lower-case letters, digits and -
        #[arg(long, value_name = "NAME")]
        name: String,
        /// End this person's access instead
        #[arg(long)]
        end: bool,
        /// Print the token as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a token with which a person reads the dashboard; each has their own
    Reader {
        /// Directory of the hub
        #[arg(long, value_name = "DIRECTORY", default_value = "hub")]
        data: PathBuf,
        /// Name of the person: lower-case letters, digits and -
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Show the points with this label alone, such as provider=acme [default: all points]
        #[arg(long, value_name = "KEY=VALUE", conflicts_with = "end")]
        only: Option<String>,
        /// End this person's access instead
        #[arg(long)]
        end: bool,
        /// Print the token as JSON
        #[arg(long)]
        json: bool,
    },
    /// End the access of a point; its recordings stay
    Revoke {
        #[command(flatten)]
        of: Of,
        /// Name of the point
        #[arg(long, value_name = "NAME")]
        name: String,
    },
    /// End the access of a point and delete all of its recordings
    Forget {
        #[command(flatten)]
        of: Of,
        /// Name of the point
        #[arg(long, value_name = "NAME")]
        name: String,
    },
}

/// Starts the dashboard; returns it and its address.
fn dashboard(
    data: &Path,
    listen: SocketAddr,
    token: Option<String>,
    push: Arc<Push>,
) -> anyhow::Result<(Dashboard, String)> {
    let token = match token {
        None if !listen.ip().is_loopback() => Some(live::web::new_token()?),
        given => given,
    };
    let dashboard = Dashboard::start(data, task::read, listen, token.clone(), push)?;
    let query = token.map(|t| format!("?token={t}")).unwrap_or_default();
    let address = format!("http://{}/{query}", dashboard.address());
    eprintln!("dashboard: {address}");
    Ok((dashboard, address))
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.command {
        Some(Command::Invite {
            of,
            name,
            share,
            json,
        }) => {
            let order = Order::Invite { name };
            let told = of.told(&order, &mut ())?;
            if json {
                print(&format!("{}\n", told.json))?;
                return Ok(Outcome::Done);
            }
            print(&told.text)?;
            let code = told.text.trim_end();
            match share {
                false => {
                    eprintln!("The point joins with: tailback agent --join https://HUB:PORT {code}")
                }
                true => eprintln!(
                    "A recording is shared with: tailback share RECORDING --hub https://HUB:PORT {code}"
                ),
            }
        }
        Some(Command::Operator {
            data,
            name,
            end,
            json,
        }) => {
            let hub = Hub::open(&data, task::read)?;
            let operator = match end {
                true => hub.end_operator(&name)?,
                false => hub.add_operator(&name)?,
            };
            match (&operator.token, json) {
                (_, true) => print_json(&operator)?,
                (Some(token), false) => {
                    print(&format!("{token}\n"))?;
                    eprintln!(
                        "{name} keeps it in a file: tailback fleet status --hub https://HUB:PORT --token FILE"
                    );
                }
                (None, false) => eprintln!("{name} operates the fleet no longer"),
            }
        }
        Some(Command::Reader {
            data,
            name,
            only,
            end,
            json,
        }) => {
            let hub = Hub::open(&data, task::read)?;
            let reader = match end {
                true => hub.end_reader(&name)?,
                false => hub.add_reader(&name, only.as_deref())?,
            };
            match (&reader.token, json) {
                (_, true) => print_json(&reader)?,
                (Some(token), false) => {
                    print(&format!("{token}\n"))?;
                    eprintln!("{name} opens the address of --web with ?token={token}");
                }
                (None, false) => eprintln!("{name} reads the dashboard no longer"),
            }
        }
        Some(Command::Revoke { of, name }) => of.shown(&Order::Revoke { name }, false)?,
        Some(Command::Forget { of, name }) => of.shown(&Order::Forget { name }, false)?,
        None => {
            crate::face::only_as_a_process("hub")?;
            live::signal::catch_interrupt();
            let alerts = Ways {
                command: args.on_change,
                webhook: args.webhook,
                mail: args.mail,
            };
            alerts.check()?;
            let quotas = Quotas {
                point: args.quota_per_point.map(Bytes::get),
                all: args.quota.map(Bytes::get),
            };
            let hub = Hub::open(&args.data, task::read)?.with_quotas(quotas);
            let sharing = args.shared.map(|all| Sharing {
                all: all.get(),
                each: args.shared_each.get(),
            });
            let hub = hub.with_sharing(sharing);
            let key = hub.pin().to_string();
            eprintln!("key {key}");
            let (_web, dashboard) = match args.web {
                Some(listen) => Some(dashboard(&args.data, listen, args.web_token, hub.push())?),
                None => None,
            }
            .unzip();
            let public = args.public.zip(args.public_by);
            let public =
                public.map(|(listen, by)| Public::start(&args.data, task::read, listen, by));
            let public = public.transpose()?;
            if let Some(public) = &public {
                eprintln!("public: http://{}/", public.address());
            }
            let mut started = Started {
                listen: args.listen,
                key,
                dashboard,
            };
            let mut told = Ok(());
            let ready = &mut |address| {
                eprintln!("hub at https://{address}; Ctrl-C ends it");
                started.listen = address;
                if args.json {
                    told = print_json(&started);
                }
            };
            let stop = &live::signal::interrupted;
            fleet::hub::serve(hub, args.listen, &alerts, args.clickhouse, ready, stop)?;
            told?;
        }
    }
    Ok(Outcome::Done)
}
