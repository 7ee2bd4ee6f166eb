//! Orders of an operator, to a hub on this machine or on another one.

use super::{print, stdout_style, table_width, task, usage};
use fleet::agent::Address;
use fleet::hub::Hub;
use fleet::{Look, Order, Told};
use ops::Progress;
use std::path::PathBuf;

/// Variable of the environment with the token, for those who give no file.
const TOKEN: &str = "TAILBACK_HUB_TOKEN";

/// Hub whose operator the user is.
#[derive(clap::Args)]
pub struct Of {
    /// Directory of the hub
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = "hub",
        conflicts_with = "hub"
    )]
    pub data: PathBuf,
    /// Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
    #[arg(long, value_name = "URL")]
    hub: Option<Address>,
    /// File with the token that `tailback hub operator` printed there [default: the token in $TAILBACK_HUB_TOKEN]
    #[arg(long, value_name = "FILE", requires = "hub")]
    token: Option<PathBuf>,
}

impl Of {
    /// Answer of the hub to an order.
    pub fn told(&self, order: &Order, progress: &mut dyn Progress) -> anyhow::Result<Told> {
        let style = stdout_style();
        let look = Look {
            table: table_width(),
            columns: style.width,
            colour: style.colour,
            unicode: style.unicode,
        };
        match &self.hub {
            Some(hub) => fleet::operator::ask(hub, &self.token()?, order, look),
            None => Hub::open(&self.data, task::read)?.obey(order, look, progress),
        }
    }

    fn token(&self) -> anyhow::Result<String> {
        match &self.token {
            Some(file) => ops::read_text(file),
            None => std::env::var(TOKEN).map_err(|_| {
                usage(format!(
                    "a hub on another machine wants a token: `tailback hub operator` prints one there; give it in --token FILE or ${TOKEN}"
                ))
            }),
        }
    }

    /// Prints the answer to an order.
    pub fn shown(&self, order: &Order, json: bool) -> anyhow::Result<()> {
        let told = self.told(order, &mut ())?;
        match json {
            true => print(&format!("{}\n", told.json)),
            false => print(&told.text),
        }
    }
}
