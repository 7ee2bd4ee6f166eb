//! Sends one recording to a hub, which makes a report page of it, and withdraws it.
//!
//! The sender joins as a point of its own with a one-time code, and uploads as an agent does. The private key is the token of
//! withdrawal; the sender keeps it, the hub knows the public half only.

use crate::agent::spool::{seal, send};
use crate::agent::{Address, Client};
use crate::hub::share::{RECORDING, address_of};
use crate::invitation::Invitation;
use crate::manifest::Manifest;
use crate::token::{LENGTH, Purpose, Token};
use crate::wire::{Enrol, Enrolled, Have, Offer, Receipt, Verdict};
use anyhow::{Context, anyhow, bail};
use base::record::{Kind, TableId};
use hyper::Method;
use measure::keys::hex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest recording that is prepared, bytes.
const LARGEST: u64 = 1 << 30;
/// Texts of a column that are shown.
const SHOWN: usize = 12;

/// File that is sent.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Sent {
    /// Path within the recording.
    pub path: String,
    pub bytes: u64,
}

/// Content of a recording that is shared, and the outcome. Its JSON is that of `tailback share --json`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Shared recording")]
pub struct Shared {
    /// Files that are sent.
    pub files: Vec<Sent>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Texts inside, such as names and addresses, by place (`TABLE.COLUMN`, or a key of meta.json): the first 12 of each.
    pub texts: BTreeMap<String, Vec<String>>,
    /// Number of texts of each place, those that are not shown included.
    pub texts_counted: BTreeMap<String, u64>,
    /// Address of the report page; null if nothing was sent.
    pub address: Option<String>,
    /// Token with which the recording is withdrawn; null if nothing was sent.
    pub token: Option<String>,
}

/// Schema of what `tailback share --json` prints.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Shared)
}

/// Copy of a recording, sealed and listed; it is removed when dropped.
pub struct Prepared {
    directory: PathBuf,
    manifest: Manifest,
    /// Description of the content.
    pub content: Shared,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Consent text of a hub.
pub struct Terms {
    /// Text, without control characters.
    pub text: String,
    /// Version: SHA-256 of the text, hexadecimal.
    pub version: String,
    /// Size of the largest recording that the hub takes, bytes.
    pub largest_bytes: u64,
}

fn copy(from: &Path, to: &Path, left: &mut u64) -> anyhow::Result<()> {
    let file =
        store::disk::open_read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let mut out = File::create_new(to)?;
    let copied = std::io::copy(&mut file.take(*left + 1), &mut out)?;
    *left = left.checked_sub(copied).ok_or_else(|| {
        ops::usage(format!(
            "a shared recording has at most {}",
            base::Bytes::new(LARGEST)
        ))
    })?;
    Ok(())
}

/// Texts of a JSON value, by key.
fn texts_of(value: &serde_json::Value, key: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        serde_json::Value::String(text) if !text.is_empty() => {
            let all = found.entry(key.into()).or_default();
            all.insert(text.clone());
        }
        serde_json::Value::Array(all) => all.iter().for_each(|v| texts_of(v, key, found)),
        serde_json::Value::Object(all) => all
            .iter()
            .for_each(|(k, v)| texts_of(v, &format!("{key}.{k}"), found)),
        _ => {}
    }
}

/// Copies a closed or interrupted recording to a private directory, and lists what is inside. Nothing is sent.
///
/// # Errors
/// It is no recording, it is still being written, it is damaged or too large.
pub fn prepare(recording: &Path) -> anyhow::Result<Prepared> {
    store::read_meta(recording)?;
    if let Some(owner) = store::Lock::held_by(recording) {
        return Err(ops::usage(format!(
            "{} is still being written by {owner}: stop that first",
            recording.display()
        )));
    }
    let directory =
        std::env::temp_dir().join(format!("tailback-share-{}", live::web::new_token()?));
    DirBuilder::new().mode(0o700).create(&directory)?;
    let mut prepared = Prepared {
        manifest: Manifest {
            recording: RECORDING.into(),
            measurement: "shared".into(),
            plan: 0,
            agent: env!("CARGO_PKG_VERSION").into(),
            started_ns: 0,
            ended_ns: 0,
            since_sync_s: None,
            files: Vec::new(),
            rows: BTreeMap::new(),
        },
        content: Shared {
            files: Vec::new(),
            bytes: 0,
            rows: 0,
            texts: BTreeMap::new(),
            texts_counted: BTreeMap::new(),
            address: None,
            token: None,
        },
        directory,
    };
    let directory = prepared.directory.clone();
    let mut left = LARGEST;
    copy(
        &recording.join("meta.json"),
        &directory.join("meta.json"),
        &mut left,
    )?;
    for file in store::files(recording)? {
        let table = file.table.spec().name;
        let ending = if file.sealed { "parquet" } else { "arrows" };
        let name = format!("{}.{ending}", file.stem);
        std::fs::create_dir_all(directory.join(table))?;
        let to = directory.join(table).join(&name);
        copy(&recording.join(table).join(&name), &to, &mut left)?;
    }
    seal(&directory)?;
    let manifest = Manifest::of(&directory, RECORDING, "shared")?;
    manifest.check()?;
    // The hub's own checks: a damaged recording does not leave this host.
    manifest.verify(&directory)?;
    prepared.content = content(&directory, &manifest)?;
    prepared.manifest = manifest;
    Ok(prepared)
}

fn content(directory: &Path, manifest: &Manifest) -> anyhow::Result<Shared> {
    let mut found = BTreeMap::new();
    let meta = serde_json::to_value(store::read_meta(directory)?)?;
    texts_of(&meta, "meta", &mut found);
    for &table in TableId::ALL {
        let spec = table.spec();
        for column in spec.columns.iter().filter(|c| c.kind == Kind::Text) {
            let mut words = Vec::new();
            store::scan(directory, table, &[column.name], &mut |columns| {
                columns.words(column.name, &mut words);
            })?;
            let all: BTreeSet<String> = words
                .iter()
                .filter(|w| !w.is_empty())
                .map(|w| w.to_string())
                .collect();
            if !all.is_empty() {
                found.insert(format!("{}.{}", spec.name, column.name), all);
            }
        }
    }
    let shown = |all: &BTreeSet<String>| {
        let texts = all.iter().take(SHOWN);
        texts.map(|t| base::text::clean(t).into_owned()).collect()
    };
    Ok(Shared {
        files: manifest
            .files
            .iter()
            .map(|f| Sent {
                path: f.path.clone(),
                bytes: f.bytes,
            })
            .collect(),
        bytes: manifest.all_bytes(),
        rows: manifest.all_rows(),
        texts: found.iter().map(|(k, v)| (k.clone(), shown(v))).collect(),
        texts_counted: found
            .iter()
            .map(|(k, v)| (k.clone(), v.len() as u64))
            .collect(),
        address: None,
        token: None,
    })
}

/// Asks a hub for its consent text.
///
/// # Errors
/// The hub cannot be reached, is another one than gave the code, or takes no shared recordings.
pub fn terms(hub: &Address, code: &Invitation) -> anyhow::Result<Terms> {
    let mut client = Client::connect(hub, code.pin, None)?;
    let offer: Offer = client.call(Method::GET, "/v1/share", None, Vec::new())?;
    let lines = offer
        .consent
        .lines()
        .map(|line| base::text::clean(line).into_owned());
    Ok(Terms {
        text: lines.collect::<Vec<String>>().join("\n"),
        version: crate::consent::version(&offer.consent),
        largest_bytes: offer.largest_bytes,
    })
}

/// Version of the consent text of hubs of this version of the program.
pub fn version_here() -> String {
    crate::consent::version(crate::SHARING)
}

/// Sends a prepared recording, whose sender has agreed to the version `consent` of the hub's text. `told` gets the
/// address and the token before the first byte is sent, so that an interrupted upload can be withdrawn, too.
///
/// # Errors
/// The hub cannot be reached or refuses: the code, the version, the size, the content.
pub fn share(
    prepared: &Prepared,
    hub: &Address,
    code: &Invitation,
    consent: &str,
    told: &mut dyn FnMut(&str, &str),
) -> anyhow::Result<Shared> {
    let token = Token::new(code.pin)?;
    let identity = Arc::new(token.identity()?);
    let asked = Enrol {
        secret: hex(&code.secret),
        public_key: identity.public(),
        agent: env!("CARGO_PKG_VERSION").into(),
        consent: consent.into(),
    };
    let mut client = Client::connect(hub, code.pin, None)?;
    let joined: Enrolled =
        client.call(Method::POST, "/v1/enrol", None, serde_json::to_vec(&asked)?)?;
    drop(client);
    let name = address_of(&joined.point)
        .filter(|n| n.len() == 32 && n.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or_else(|| {
            anyhow!("the code is not one for sharing: ask for one of `tailback hub invite --share`")
        })?;
    let address = format!("{hub}/shared/{name}");
    let token = token.text(Purpose::Withdraw);
    told(&address, &token);
    let mut client = Client::connect(hub, code.pin, Some((joined.point.clone(), identity)))?;
    let manifest = &prepared.manifest;
    for part in &manifest.files {
        let path = format!("/v1/recordings/{RECORDING}/files/{}", part.path);
        let file = store::disk::open_read(&prepared.directory.join(&part.path))?;
        send(&mut client, &path, &file, part.bytes)?;
    }
    let receipt: Receipt = client.call(
        Method::POST,
        "/v1/close",
        None,
        serde_json::to_vec(manifest)?,
    )?;
    if !receipt.is_for(manifest, &joined.point, &joined.hub_key) {
        bail!("the receipt is not signed by the hub");
    }
    if receipt.verdict == Verdict::Quarantined {
        let why = receipt.reason.unwrap_or_default();
        bail!(
            "the hub has put the recording into quarantine: {}",
            base::text::clean(&why)
        );
    }
    Ok(Shared {
        address: Some(address),
        token: Some(token),
        ..prepared.content.clone()
    })
}

/// Withdraws a shared recording: the hub deletes it and its page.
///
/// # Errors
/// An address or token that is none, a hub that cannot be reached or refuses.
pub fn withdraw(address: &str, token: &str) -> anyhow::Result<()> {
    let wrong = || {
        ops::usage(format!(
            "{address:?} is no address of a shared recording: https://HUB:PORT/shared/NAME"
        ))
    };
    let (hub, name) = address.trim().split_once("/shared/").ok_or_else(wrong)?;
    let hub: Address = hub.parse().map_err(|_| wrong())?;
    if name.len() != 32 || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let token = Token::read(token, Purpose::Withdraw).ok_or_else(|| {
        ops::usage(format!(
            "the token is not whole: copy all {LENGTH} characters that `tailback share` printed"
        ))
    })?;
    let signer = (format!("share-{name}"), Arc::new(token.identity()?));
    let mut client = Client::connect(&hub, token.pin, Some(signer))?;
    let _: Have = client.call(Method::POST, "/v1/withdraw", None, Vec::new())?;
    Ok(())
}
