//! An operator at another machine than the hub's: orders over the network.

use crate::agent::{Address, Client, HubRefuses};
use crate::order::{Look, Order, Told};
use crate::token::{LENGTH, Purpose, Token};
use crate::wire::OrderRequest;
use base::text::{clean, clean_lines};
use hyper::Method;
use std::sync::Arc;
use std::time::Duration;

/// Longest time for an answer: a report over a large fleet takes its time.
const ANSWER: Duration = Duration::from_secs(600);
/// Largest answer, bytes.
const MOST: usize = 256 << 20;

/// Sends an order to a hub; `token` is the operator's.
///
/// # Errors
/// A token that is none, a hub that cannot be reached or refuses.
pub fn ask(hub: &Address, token: &str, order: &Order, look: Look) -> anyhow::Result<Told> {
    let token = Token::read(token, Purpose::Operate).ok_or_else(|| {
        ops::usage(format!(
            "the token is none of an operator: it has the {LENGTH} characters that `tailback hub operator` printed"
        ))
    })?;
    let identity = token.identity()?;
    // The key is the name: its holder need not know which one the hub has for it.
    let signer = (identity.public().to_string(), Arc::new(identity));
    let mut client = Client::connect(hub, token.pin, Some(signer))?;
    client.reads_up_to(MOST, ANSWER);
    let request = OrderRequest {
        order: order.clone(),
        // Text of another machine is cleaned, and would lose its colours.
        look: Look {
            colour: false,
            ..look
        },
    };
    let body = serde_json::to_vec(&request)?;
    let told: Told = client
        .call(Method::POST, "/v1/order", None, body)
        .map_err(|e| match e.downcast_ref::<HubRefuses>() {
            Some(refused) if refused.status == 400 => ops::usage(refused.why.clone()),
            _ => e,
        })?;
    Ok(Told {
        json: clean_lines(&told.json).into_owned(),
        text: clean_lines(&told.text).into_owned(),
        page: told.page,
        left_out: told.left_out.iter().map(|s| clean(s).into()).collect(),
    })
}
