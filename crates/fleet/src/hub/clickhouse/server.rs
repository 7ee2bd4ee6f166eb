//! Conversation with a ClickHouse server over HTTP.

use crate::http::Http;
use anyhow::{Context, anyhow};
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use ops::usage;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tokio::net::TcpStream;

const ANSWER: Duration = Duration::from_secs(300);
/// Variable of the environment with the user's password.
const PASSWORD: &str = "TAILBACK_CLICKHOUSE_PASSWORD";
/// Characters of an error that are kept.
const ERROR: usize = 300;

/// Database of a server: `http://[USER@]HOST:PORT[/DATABASE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    user: Option<String>,
    host: String,
    pub(super) database: String,
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Target, String> {
        let wrong = || {
            format!(
                "{text:?} is no ClickHouse server: write it as http://[USER@]HOST:PORT[/DATABASE]"
            )
        };
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match place.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, place),
        };
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let database = match database {
            "" => "tailback",
            given => given,
        };
        let is_word = |text: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            !text.is_empty() && text.bytes().all(allowed) && !text.as_bytes()[0].is_ascii_digit()
        };
        let is_host = !name.is_empty() && !name.contains(['/', '?', '#', ' ', '@']);
        let is_right = is_host
            && is_word(database)
            && user.as_deref().is_none_or(is_word)
            && port.parse::<u16>().is_ok_and(|port| port > 0);
        match is_right {
            true => Ok(Target {
                user,
                host: host.to_owned(),
                database: database.to_owned(),
            }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}/{}", self.host, self.database)
    }
}

/// Text as a part of a URL's query.
fn encoded(text: &str) -> percent_encoding::PercentEncode<'_> {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

/// Open connection.
pub(super) struct Server {
    http: Http,
    target: Target,
    password: Option<String>,
}

impl Server {
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(target: &Target) -> anyhow::Result<Server> {
        let stream = async {
            let stream = TcpStream::connect(&target.host).await;
            let stream = stream.with_context(|| format!("cannot reach {target}"))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        Ok(Server {
            http: Http::connect("ClickHouse", &target.to_string(), stream)?,
            target: target.clone(),
            password: std::env::var(PASSWORD).ok(),
        })
    }

    /// Runs a statement, and returns what it prints.
    ///
    /// # Errors
    /// The connection broke, or the server refuses.
    pub fn run(&mut self, sql: &str) -> anyhow::Result<String> {
        self.post("", sql.as_bytes().to_vec())
    }

    /// Runs an insertion of these bytes. While one with the same id runs, the server refuses another.
    ///
    /// # Errors
    /// The connection broke, or the server refuses.
    pub fn insert(&mut self, sql: &str, id: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        // One block, however many rows: it is written whole or not at all.
        let query = format!(
            "?query={}&query_id={}&max_insert_block_size=1048576",
            encoded(sql),
            encoded(id)
        );
        self.post(&query, bytes).map(|_| ())
    }

    fn post(&mut self, query: &str, body: Vec<u8>) -> anyhow::Result<String> {
        let mut request = Request::builder()
            .method("POST")
            .uri(format!("/{query}"))
            .header("host", &self.target.host)
            .header("content-length", body.len());
        if let Some(user) = &self.target.user {
            request = request.header("x-clickhouse-user", user);
        }
        if let Some(password) = &self.password {
            request = request.header("x-clickhouse-key", password);
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| usage(format!("{PASSWORD} cannot be sent: {e}")))?;
        let (status, answer) = self.http.exchange(request, ANSWER)?;
        let text = String::from_utf8_lossy(&answer);
        if !status.is_success() {
            let why: String = base::text::clean(text.trim()).chars().take(ERROR).collect();
            return Err(anyhow!("ClickHouse refuses: {why}"));
        }
        Ok(text.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_others_are_refused() {
        let target = |text: &str| text.parse::<Target>();
        let plain = target("http://127.0.0.1:8123").unwrap();
        assert_eq!(plain.to_string(), "http://127.0.0.1:8123/tailback");
        assert_eq!(target("http://127.0.0.1:8123/").unwrap(), plain);
        let other = target("http://otto@[2001:db8::1]:8123/fleet_2").unwrap();
        assert_eq!(other.user.as_deref(), Some("otto"));
        assert_eq!(other.database, "fleet_2");
        for bad in [
            "",
            "127.0.0.1:8123",
            "https://h:8123/x",
            "http://h/x",
            "http://h:0/x",
            "http://h:8123/x y",
            "http://h:8123/x;drop",
            "http://h:8123/1x",
            "http://a b@h:8123/",
            "http://:8123/",
        ] {
            assert!(target(bad).is_err(), "{bad:?}");
        }
        assert_eq!(encoded("a b'é").to_string(), "a%20b%27%C3%A9");
    }
}
