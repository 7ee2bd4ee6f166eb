//! Messages of foreign servers, checked: addresses of a responsiveness server, measurements of ndt7.

use super::target::{Target, host};
use base::record::{Direction, Flow};
use base::text::clean;
use hyper::http::Uri;
use serde::Deserialize;

/// Longest measurement.
const MOST_MEASUREMENT: usize = 64 << 10;
/// Longest round trip that is believed, µs.
const MOST_RTT_US: i64 = 60_000_000;
/// Longest text of a server that is shown.
const QUOTED: usize = 200;

/// Text of a server, cleaned and shortened.
pub(super) fn quote(text: &str) -> String {
    clean(text).chars().take(QUOTED).collect()
}

/// Configuration of a responsiveness server (draft-ietf-ippm-responsiveness, section 7).
#[derive(Deserialize)]
struct Config {
    version: u64,
    urls: Written,
}

/// Each object has two names: an older one, and the one of the draft. Servers tell one or both.
#[derive(Deserialize)]
struct Written {
    small_https_download_url: Option<String>,
    small_download_url: Option<String>,
    large_https_download_url: Option<String>,
    large_download_url: Option<String>,
    https_upload_url: Option<String>,
    upload_url: Option<String>,
}

/// Paths of the objects of a responsiveness server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Urls {
    /// Large object, for the load of a download.
    pub download: String,
    /// Receiver of the load of an upload.
    pub upload: String,
    /// Small object, if there is one.
    pub small: Option<String>,
}

impl Urls {
    /// Reads a configuration, whose objects have to be on the server that the user named.
    ///
    /// # Errors
    /// Text that is no such configuration, or that names another server.
    pub fn read(target: &Target, bytes: &[u8]) -> Result<Urls, String> {
        let config: Config = serde_json::from_slice(bytes).map_err(|e| {
            let why = quote(&e.to_string());
            format!("no configuration of a responsiveness server ({why})")
        })?;
        if config.version != 1 {
            return Err(format!(
                "a configuration of version {}, and 1 is known",
                config.version
            ));
        }
        let urls = config.urls;
        let missing = |what| format!("a configuration without the address of {what}");
        let large = urls.large_https_download_url.or(urls.large_download_url);
        let upload = urls.https_upload_url.or(urls.upload_url);
        let small = urls.small_https_download_url.or(urls.small_download_url);
        Ok(Urls {
            download: own_path(target, &large.ok_or_else(|| missing("a large object"))?)?,
            upload: own_path(target, &upload.ok_or_else(|| missing("an upload"))?)?,
            small: small.map(|url| own_path(target, &url)).transpose()?,
        })
    }
}

/// Path of an object on the server itself.
fn own_path(target: &Target, url: &str) -> Result<String, String> {
    let elsewhere = || {
        format!(
            "that its load is at {}: only the server that you named is used",
            quote(url)
        )
    };
    let uri: Uri = url.parse().map_err(|_| elsewhere())?;
    let scheme = if target.tls { "https" } else { "http" };
    let usual = if target.tls { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(usual);
    let same = uri.scheme_str() == Some(scheme)
        && host(&uri).as_deref() == Some(&target.host)
        && port == target.port;
    if !same {
        return Err(elsewhere());
    }
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    // The path of `https://HOST?QUERY` is empty.
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(format!("{slash}{path}"))
}

/// Measurement of an ndt7 server; keys that are not here have no use.
#[derive(Deserialize)]
struct Measurement {
    #[serde(rename = "TCPInfo")]
    tcp: Option<TcpInfo>,
}

/// Kernel's view of the sender, as `struct tcp_info` names its fields.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TcpInfo {
    /// Time since the begin of the test, µs.
    elapsed_time: Option<i64>,
    #[serde(rename = "RTT")]
    rtt: Option<i64>,
    #[serde(rename = "RTTVar")]
    rtt_var: Option<i64>,
    #[serde(rename = "MinRTT")]
    min_rtt: Option<i64>,
    total_retrans: Option<i64>,
    snd_cwnd: Option<i64>,
    #[serde(rename = "SndMSS")]
    snd_mss: Option<i64>,
}

/// Row of a measurement of ndt7, and its time since the begin of the test in ns; null if it cannot be true. `since_ns` is
/// this host's time since then, `retransmits` the largest count so far.
pub fn sample(text: &str, since_ns: i64, retransmits: &mut i64) -> Option<(i64, Flow)> {
    if text.len() > MOST_MEASUREMENT {
        return None;
    }
    let tcp = serde_json::from_str::<Measurement>(text).ok()?.tcp?;
    let at = tcp.elapsed_time?.checked_mul(1000)?;
    // A measurement of the future is none; a clock of the server may be a little fast.
    if !(0..=since_ns + since_ns / 100 + 50_000_000).contains(&at) {
        return None;
    }
    let micros = |v: Option<i64>| {
        v.filter(|us| (1..=MOST_RTT_US).contains(us))
            .map(|us| us * 1000)
    };
    let again = tcp.total_retrans.filter(|n| *n >= *retransmits);
    *retransmits = again.unwrap_or(*retransmits);
    let mss = tcp.snd_mss.filter(|m| (88..=65_535).contains(m));
    let packets = tcp.snd_cwnd.filter(|c| (0..=1 << 30).contains(c));
    let row = Flow {
        srtt_ns: micros(tcp.rtt),
        rttvar_ns: micros(tcp.rtt_var),
        min_rtt_ns: micros(tcp.min_rtt),
        retransmits: again,
        cwnd_bytes: packets.zip(mss).map(|(packets, mss)| packets * mss),
        mss_bytes: mss,
        ..Flow::about(0, 0, Direction::Down)
    };
    Some((at, row))
}
