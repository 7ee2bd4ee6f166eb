//! A cell as a user runs it, with the kernel's own packets: the binary beside this one.

use crate::accuracy::cell::Plant;
use crate::accuracy::line::Line;
use crate::accuracy::rows::Said;
use base::record::{Recording, Row};
use live::clock::Clock;
use live::emulate::{Emulation, FAR_V4, Options};
use serde_json::Value;
use std::any::Any;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use testkit::TempDir;
use testkit::networks::site::{self, Site};
use testkit::networks::{impostor, network, planted, resolver};

fn tailback(probe: &str, scratch: &TempDir) -> Result<Command, String> {
    let mut command = Command::new(crate::program().map_err(|e| e.to_string())?);
    command
        .args(["probe", probe, "--json", "--budget", "1 GB", "--output"])
        .arg(recording(scratch));
    Ok(command)
}

fn recording(scratch: &TempDir) -> PathBuf {
    scratch.join("probe.rec")
}

/// Returns the printed answer and the recording.
fn said(command: &mut Command, recording: &Path) -> Result<Said, String> {
    let out = command.output().map_err(|e| e.to_string())?;
    let answer: Value = serde_json::from_slice(&out.stdout).map_err(|_| {
        let told = String::from_utf8_lossy(&out.stderr);
        told.lines().last().unwrap_or("it said nothing").to_string()
    })?;
    let doubts = answer["doubts"].as_array();
    let mut doubts = doubts.into_iter().flatten().filter_map(Value::as_str);
    let doubt = doubts.find(|d| d.starts_with("emulator:"));
    Ok(Said {
        doubt: doubt.map(str::to_owned),
        answer: answer.clone(),
        recording: store::read(recording).map_err(|e| e.to_string())?,
        ..Said::default()
    })
}

/// Over emulated links that the program itself puts up.
pub fn over_a_link(probe: &str, line: &Line) -> Result<Said, String> {
    let scratch = TempDir::new("accuracy");
    let file = scratch.join("line.toml");
    let text = toml::to_string(&line.spec()).map_err(|e| e.to_string())?;
    std::fs::write(&file, text).map_err(|e| e.to_string())?;
    let mut command = tailback(probe, &scratch)?;
    command
        .arg("--link")
        .arg(line.chain.replace('@', &file.to_string_lossy()));
    if line.v6 {
        command.arg("-6");
    }
    if line.others > 0.0 {
        let rate = (line.others * line.rate) as u64;
        command.args(["--others", &format!("{rate} bit/s")]);
    }
    said(&mut command, &recording(&scratch))
}

/// At the near end of a network in which something is planted.
pub fn in_a_network(probe: &str, line: &Line, plants: &[Plant]) -> Result<Said, String> {
    let (rows, queues) = mpsc::channel();
    let options = Options {
        rows: Some(rows),
        ..Options::new(Clock::start())
    };
    let link = link::LinkSpec::parse(&line.text()).map_err(|e| e.to_string())?;
    let emulation = Emulation::start(&[link], options).map_err(|e| e.to_string())?;
    let (near, far) = (emulation.near(), emulation.far());
    let mut held: Vec<Box<dyn Any>> = Vec::new();
    let mut site = None;
    // The server has all addresses of the far end.
    for plant in plants {
        if let Plant::FarShell(script) = plant {
            network::sh(far, script);
        }
    }
    let server = testkit::line::serve(&emulation);
    for plant in plants {
        match plant {
            Plant::FarShell(_) => {}
            Plant::NearShell(script) => network::sh(near, script),
            Plant::NearRules(table) => rules(near, table)?,
            Plant::FarRules(table) => rules(far, table)?,
            Plant::Resolver(port, manner) => {
                held.push(Box::new(resolver::start(far, *port, *manner)));
            }
            Plant::Impostor(port) => held.push(Box::new(impostor::start(near, *port))),
            Plant::Taken(port) => {
                let at = (FAR_V4, *port);
                let bound = far.run(move || TcpListener::bind(at));
                let bound = bound.map_err(|e| e.to_string())?;
                held.push(Box::new(bound.map_err(|e| e.to_string())?));
            }
            Plant::Boxes => {
                held.push(Box::new(impostor::web(
                    near,
                    planted::PROXY,
                    "10.77.0.2:80",
                )));
                held.push(Box::new(impostor::names(
                    near,
                    planted::FORWARDER,
                    "10.77.0.2:53",
                )));
            }
            Plant::Site => {
                let missing = site::missing();
                if !missing.is_empty() {
                    return Err(format!("needs {missing:?}, which are not here"));
                }
                site = Some(Site::start(&emulation));
            }
        }
    }
    let trust = site.as_ref().map_or("", Site::trust);
    let probe = probe.replace("{trust}", trust);
    let before = site.as_ref().map(|s| s.counts(&emulation));
    let scratch = TempDir::new("accuracy");
    let mut command = tailback(&probe, &scratch)?;
    command.arg(FAR_V4.to_string()).args(planted::ALSO);
    let mut said = said(near.command(&mut command), &recording(&scratch))?;
    if let (Some(site), Some(before)) = (&site, before) {
        said.connections = taken(&emulation, site, &before);
    }
    server.stop();
    drop((held, site));
    let summary = emulation.stop().map_err(|e| e.to_string())?;
    said.doubt = summary.doubt();
    queues.iter().for_each(|row: Row| said.recording.push(row));
    Ok(said)
}

fn rules(ns: &live::emulate::NetNs, table: &str) -> Result<(), String> {
    if !network::can_translate(ns) {
        return Err("this system does not translate addresses (nftables)".into());
    }
    network::rules(ns, table);
    Ok(())
}

/// Connections that the site took since; to ask for the first count was one, and is in both.
fn taken(emulation: &Emulation, site: &Site, before: &Value) -> Value {
    let mut after = site.counts(emulation);
    if let Some(counts) = after.as_object_mut() {
        for (port, count) in counts.iter_mut() {
            let was = before[port].as_i64().unwrap_or(0);
            let own = i64::from(*port == site::PORT.to_string());
            *count = (count.as_i64().unwrap_or(0) - was - own).into();
        }
    }
    after
}

/// Rows of the emulator's queue between these instants, ns.
pub fn sojourns(recording: &Recording, queue: &str, spans: &[(i64, i64)]) -> Vec<f64> {
    let within = |t: i64| spans.iter().any(|(from, to)| (*from..*to).contains(&t));
    let rows = recording.queue.iter();
    let these = rows.filter(|q| &*q.queue == queue && within(q.t_ns));
    these
        .filter_map(|q| Some(q.sojourn_ns? as f64 * 1e-6))
        .collect()
}
