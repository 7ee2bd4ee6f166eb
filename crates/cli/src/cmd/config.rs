//! Configuration files: each setting of a verb is an option and a key of the file, by one declaration.

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Settings that a user gave, in a file or as options; a setting that was not given is not serialized.
pub trait Configured: clap::Args + Serialize + DeserializeOwned {
    /// Verb that reads the file.
    const VERB: &'static str;
    /// Keys that are no options, with their help.
    const KEYS: &'static [(&'static str, &'static str)];
    /// Defaults of the help that are values, and not sentences.
    const DEFAULTS: &'static [&'static str];

    /// Reads a configuration file.
    ///
    /// # Errors
    /// A file that cannot be read, and a key or value that is not known; the line is named.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = ops::read_text(path)?;
        toml::from_str(&text).map_err(|e| ops::usage(format!("{}: {e}", path.display())))
    }

    /// Returns these settings, completed by others.
    fn over(&self, other: &Self) -> Self {
        let (own, mut all) = (table(self), table(other));
        // One version of IP is chosen or the other: an option replaces both of the file.
        if own.contains_key("ipv4") || own.contains_key("ipv6") {
            all.remove("ipv4");
            all.remove("ipv6");
        }
        all.extend(own);
        let all = toml::Value::Table(all).try_into();
        all.expect("settings are read as they are written")
    }

    /// Returns these settings, completed by those of the file, as TOML: each with its origin; those without a value are
    /// comments.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    fn printed(&self, file: Option<&Self>) -> anyhow::Result<String> {
        let (options, file) = (table(self), file.map(table).unwrap_or_default());
        let mut out = format!("# Settings of `tailback {} --config`.\n", Self::VERB);
        for (key, help, usual) in keys::<Self>() {
            let origin = [(&options, "option"), (&file, "file")];
            let given = origin
                .iter()
                .find_map(|(t, from)| Some((t.get(&key)?, *from)));
            out += &format!("\n# {help}\n");
            match (given, usual) {
                (Some((value, from)), _) => {
                    let value = toml_text(value).context("a value of the configuration")?;
                    out += &format!("{key} = {value} # from the {from}\n");
                }
                (None, Some(usual)) if usual.parse::<i64>().is_ok() => {
                    out += &format!("{key} = {usual} # default\n");
                }
                (None, Some(usual)) => out += &format!("{key} = \"{usual}\" # default\n"),
                (None, None) => out += &format!("# {key} =\n"),
            }
        }
        Ok(out)
    }
}

/// Versions of IP that a user gave.
#[derive(clap::Args, Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Ip {
    /// Use IPv4 only
    #[arg(
        short = '4',
        long,
        conflicts_with = "ipv6",
        num_args = 0,
        default_missing_value = "true"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<bool>,
    /// Use IPv6 only
    #[arg(short = '6', long, num_args = 0, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<bool>,
}

fn table(settings: &impl Serialize) -> toml::Table {
    let value = toml::Value::try_from(settings);
    match value.expect("settings are texts, numbers and lists") {
        toml::Value::Table(table) => table,
        other => unreachable!("a struct is a table, not {other}"),
    }
}

fn toml_text(value: &toml::Value) -> anyhow::Result<String> {
    let mut text = String::new();
    serde::Serialize::serialize(value, toml::ser::ValueSerializer::new(&mut text))?;
    Ok(text)
}

/// Keys with the first line of their help, and those defaults that a file can state.
fn keys<T: Configured>() -> Vec<(String, String, Option<String>)> {
    let command = T::augment_args(clap::Command::new(T::VERB));
    let owned = |(key, help): &(&str, &str)| ((*key).to_owned(), (*help).to_owned(), None);
    let mut all: Vec<_> = T::KEYS.iter().map(owned).collect();
    for arg in command.get_arguments() {
        let Some(key) = arg.get_long() else {
            continue;
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let usual = help
            .split_once("[default: ")
            .and_then(|(_, d)| d.strip_suffix(']'));
        let usual = usual.filter(|d| T::DEFAULTS.contains(d));
        let (usual, key) = (usual.map(str::to_owned), key.to_owned());
        let help = help.split(" [default").next().unwrap_or_default();
        all.push((key, help.to_owned(), usual));
    }
    all
}
