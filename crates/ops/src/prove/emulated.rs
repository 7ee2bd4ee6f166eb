//! Blocks with the kernel's TCP over emulated links.

use super::Plan;
use crate::progress::Observer;
use crate::session::{Embedded, Session};
use crate::usage;
use ::twin::prove::{Block, Proof, Trial, decide, order};
use ::twin::whatif::{Figures, Home, Scene};
use anyhow::Context;
use base::record::{FORMAT_VERSION, Meta, Origin};
use base::{Bytes, Duration};
use experiment::Bounds;
use link::LinkSpec;
use live::load::{Access, Peer};
use live::serve::ServeConfig;
use live::sockets::{Setup, Sockets};
use std::path::{Path, PathBuf};

/// Counted part of a block.
const BLOCK: Duration = Duration::from_secs(10);

/// Runs all blocks, each over links of its own; gives the proof and the directory of the recordings.
///
/// # Errors
/// A controller that only the simulator has, links that cannot be emulated, an interruption.
pub(super) fn run(
    plan: &Plan,
    trial: &Trial,
    detectable: Option<f64>,
    observer: &dyn Observer,
) -> anyhow::Result<(Proof, PathBuf)> {
    if trial.on.controller != trial.off.controller || trial.on.ecn != trial.off.ecn {
        return Err(usage(
            "a cure of the sender is proved in virtual time only: add --virtual",
        ));
    }
    let scene = Scene::of(&trial.off.link, trial.load).lasting(trial.block.unwrap_or(BLOCK));
    let folder = super::folder(plan.output.as_ref())?;
    let mut done: Vec<(u64, bool, Figures)> = Vec::new();
    for (pair, first) in order(plan.pairs, plan.seed).into_iter().enumerate() {
        for on in [first, !first] {
            let home = if on { &trial.on } else { &trial.off };
            let word = if on { "on" } else { "off" };
            let number = done.len() + 1;
            let path = folder.join(format!("{number:03}-{word}.rec"));
            let figures = block(home, &scene, (&path, word), observer)?;
            done.push((pair as u64, on, figures));
            observer.share(number as f64 / (2 * plan.pairs) as f64);
        }
    }
    let off: Vec<&Figures> = done.iter().filter(|d| !d.1).map(|d| &d.2).collect();
    let reference = Figures::mean(&off);
    let blocks = done.iter().map(|(pair, on, f)| Block {
        pair: *pair,
        on: *on,
        value: plan.measure.of(f, &reference),
    });
    let proof = decide(plan.measure, blocks.collect(), detectable, plan.seed);
    Ok((proof, folder))
}

/// Runs one block.
fn block(
    home: &Home,
    scene: &Scene,
    (path, word): (&Path, &str),
    observer: &dyn Observer,
) -> anyhow::Result<Figures> {
    // The router stands between the near end and the link, in both directions.
    let router = home.router.iter().cloned().map(passing);
    let links: Vec<LinkSpec> = router.chain([home.link.clone()]).collect();
    let session = Session::start(Some(path), |clock| {
        Ok(Meta {
            format: FORMAT_VERSION,
            writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
            origin: Origin::Emulated,
            verb: "prove".into(),
            title: format!("Emulated link {}, cure {word}", home.link.name),
            started_ns: clock.unix_ns(),
            known_link: Some(serde_json::json!({ "link": crate::links::links_json(&links)? })),
            host: live::host::facts(None),
            ..Meta::default()
        })
    })?;
    let here = Embedded {
        links: &links,
        routed: links.len() > 1,
        v6: false,
        cross_traffic: None,
        server: ServeConfig::default(),
    };
    let mut watch = session.watch(observer);
    let ran = here.run(&session, |server, _| -> anyhow::Result<()> {
        let peer = Peer {
            server,
            access: Access::default(),
            patience: Duration::from_secs(10),
        };
        let setup = Setup {
            so_far: session.recorder.shared.clone(),
            ..Setup::new(peer, session.clock, session.recorder.rows.clone())
        };
        let mut sockets = Sockets::new(setup);
        let bounds = Bounds::of(Bytes::new(u64::MAX));
        experiment::run(&mut scene.steps(), &bounds, &mut sockets, &mut watch)?;
        Ok(())
    });
    let result = ran.and_then(|(result, doubt)| {
        if let Some(doubt) = doubt {
            observer.warn(&doubt);
        }
        result
    });
    let closed = session.finish(&result);
    result?;
    closed.written?;
    scene.read(&closed.recording).with_context(|| {
        format!(
            "the block in {} has no answered probes under load",
            path.display()
        )
    })
}

/// Router whose unshaped directions are as fast as an emulated link may be.
fn passing(mut router: LinkSpec) -> LinkSpec {
    for side in [&mut router.up, &mut router.down] {
        if let link::RateSpec::Fixed(rate) = &mut side.rate {
            *rate = (*rate).min(base::BitsPerSec::from_mbps(1_000));
        }
    }
    router
}
