//! Builds a network from a scenario, which is checked completely before anything runs.

use crate::absurd::FASTEST;
use crate::error::ScenarioError;
use crate::flow::Flow;
use crate::gateway::Gateway;
use crate::lblca_ports::Ports;
use crate::network::Network;
use crate::scenario::Scenario;
use crate::source::registry::Made;
use crate::source::{Pattern, Span};
use crate::tcp::Settings;
use crate::topology::{Edge, Graph, Parts, Router};
use base::rng::{Rng, Streams, uniform};
use base::{BitsPerSec, Bytes, Duration, Ecn, Time};
use link::{DirectionSpec, LinkParams};
use std::sync::Arc;

/// Maximum number of flows; more are taken for a typing error.
const MOST_FLOWS: u64 = 1_000_000;

/// Longest run; its end must be a time that the event queue can hold.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// A flow of the network and its `[[flow]]`.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Number of its `[[flow]]`.
    pub group: usize,
    /// Sending end in the network.
    pub end: End,
    /// Nodes of the graph that send and receive its packets.
    pub hosts: (u32, u32),
}

/// End of a flow in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Number of the application.
    Tcp(usize),
    /// Number of the source of datagrams.
    Datagrams(usize),
}

/// Change of a route: its time, the flow, and the number of the way that was laid.
pub type Change = (Time, usize, usize);

/// Flows of a network and the changes of their routes.
type Flows = (Vec<Instance>, Vec<Change>);

/// Network of a scenario with its flows.
pub struct Plan {
    /// Network to run.
    pub network: Network,
    /// Ports that set the rates of the watched links.
    pub(crate) ports: Option<Ports>,
    /// Gateway before the first watched link.
    pub(crate) gateway: Gateway,
    /// Number, name and mean rate after the warm-up of each watched link.
    pub watched: Vec<(usize, String, BitsPerSec)>,
    /// Watched links whose rate varies.
    pub varying: Vec<usize>,
    /// Reverse direction of the first watched link.
    pub back: Option<usize>,
    /// Flows in the order of the scenario.
    pub flows: Vec<Instance>,
    /// Changes of routes, the latest first.
    pub turns: Vec<Change>,
}

impl Plan {
    /// Makes the changes of routes that are due at `now`.
    pub(crate) fn turn(&mut self, now: Time) {
        while let Some((_, flow, way)) = self.turns.pop_if(|turn| turn.0 <= now) {
            match self.flows[flow].end {
                End::Tcp(i) => self.network.turn(i, way),
                End::Datagrams(i) => self.network.turn_datagrams(i, way),
            }
        }
    }

    /// Time of the next change of a route.
    pub(crate) fn next_turn(&self) -> Time {
        self.turns.last().map_or(Time::MAX, |turn| turn.0)
    }
}

fn invalid<T>(text: String) -> Result<T, ScenarioError> {
    Err(ScenarioError::Invalid(text))
}

fn reverse_of(link: &DirectionSpec) -> DirectionSpec {
    DirectionSpec {
        queue: "fifo:packets=1000000"
            .parse()
            .expect("fifo is in the table"),
        policer: None,
        shaper: None,
        drift: None,
        delays: None,
        jitter: None,
        loss: None,
        reorder: None,
        sleep: None,
        duplicate: 0.0,
        ..link.clone()
    }
}

/// Return path of a scenario: by default as the link, and never full.
pub(crate) fn reverse(scenario: &Scenario, link: &DirectionSpec) -> DirectionSpec {
    let given = scenario.reverse.clone();
    given.unwrap_or_else(|| reverse_of(link))
}

/// Links between hosts and routers of a scenario: by default ten times as fast as the link.
pub(crate) fn access(
    scenario: &Scenario,
    link: &DirectionSpec,
) -> Result<DirectionSpec, ScenarioError> {
    let peak = params("link", link)?.rate.peak();
    let faster = BitsPerSec::new(peak.get().saturating_mul(10)).min(FASTEST.max(peak));
    let given = scenario.access.clone();
    Ok(given.unwrap_or_else(|| DirectionSpec {
        delay: Duration::ZERO,
        rate: link::RateSpec::Fixed(faster),
        framing: None,
        ..reverse_of(link)
    }))
}

pub(crate) fn graph_of(scenario: &Scenario) -> Result<Graph, ScenarioError> {
    let shape = scenario.topology.words().entry().name;
    let is_graph = shape == "graph";
    for (key, link, unknown) in [
        ("link", &scenario.link, is_graph),
        ("reverse", &scenario.reverse, is_graph),
        ("access", &scenario.access, is_graph || shape == "linear"),
    ] {
        if link.is_some() && unknown {
            let others = match is_graph {
                true => "its links are those of the [[edge]] tables",
                false => "its hosts are at the ends of [link]",
            };
            return invalid(format!("topology \"{shape}\" has no [{key}]: {others}"));
        }
    }
    let mut graph = match (&scenario.link, is_graph) {
        (_, true) => Graph::default(),
        (Some(link), _) => Graph::build(
            &scenario.topology,
            &Parts {
                link: &Arc::new(link.clone()),
                reverse: &Arc::new(reverse(scenario, link)),
                access: &Arc::new(access(scenario, link)?),
            },
        ),
        (None, _) => {
            return invalid(
                "a scenario needs a [link] with a rate, such as rate = \"10 Mbit/s\"; topology = \"graph\" has [[edge]] tables \
                 instead"
                    .into(),
            );
        }
    };
    if is_graph && scenario.edges.is_empty() {
        return invalid(
            "topology \"graph\" needs links: add [[edge]] tables with between = [\"a\", \"b\"] and link".into(),
        );
    }
    if !is_graph && !scenario.edges.is_empty() {
        return invalid(format!(
            "[[edge]] belongs to topology = \"graph\", not to \"{}\"",
            scenario.topology
        ));
    }
    for edge in &scenario.edges {
        let [a, b] = &edge.between;
        if a == b {
            return invalid(format!("edge: both ends are \"{a}\""));
        }
        let (from, to) = (graph.node(a), graph.node(b));
        let name = match edge.name.as_str() {
            "" => format!("{a}>{b}"),
            name => name.to_string(),
        };
        let link = Arc::new(edge.link.clone());
        graph.add(from, to, name, &link, edge.watch);
        let back = edge.back.clone().map_or(link, Arc::new);
        let name = match edge.name.as_str() {
            "" => format!("{b}>{a}"),
            name => format!("{name}/back"),
        };
        graph.add(to, from, name, &back, false);
    }
    Ok(graph)
}

fn params(name: &str, spec: &DirectionSpec) -> Result<LinkParams, ScenarioError> {
    spec.params().map_err(|e| {
        let text = e.to_string();
        let text = text.strip_prefix("link: ").unwrap_or(&text);
        ScenarioError::Invalid(format!("{name}: {text}"))
    })
}

/// Checks a scenario for every possible error before anything runs.
///
/// # Errors
/// The invalid value, and what is accepted.
pub fn check(scenario: &Scenario) -> Result<(), ScenarioError> {
    checked(scenario).map(drop)
}

/// Checks a scenario, and returns its graph.
fn checked(scenario: &Scenario) -> Result<Graph, ScenarioError> {
    if scenario.duration.is_zero() || scenario.duration > LONGEST {
        return invalid(format!(
            "duration = \"{}\": from 1 ns to {LONGEST}",
            scenario.duration
        ));
    }
    if scenario.warmup >= scenario.duration {
        return invalid(format!(
            "warmup = \"{}\" leaves nothing of duration = \"{}\" to measure",
            scenario.warmup, scenario.duration
        ));
    }
    let shortest = Duration::from_micros(1);
    for (key, period) in [
        ("sample.queue", Some(scenario.sample.queue)),
        ("sample.flow", Some(scenario.sample.flow)),
        ("sample.traffic", scenario.sample.traffic),
    ] {
        if let Some(period) = period.filter(|p| *p < shortest) {
            return invalid(format!("{key} = \"{period}\": at least {shortest}"));
        }
    }
    check_flows(scenario)?;
    let graph = graph_of(scenario)?;
    let mut known = Shared::default();
    for edge in &graph.edges {
        known.params(edge)?;
    }
    crate::absurd::check(scenario, &graph)?;
    if let Some(lblca) = &scenario.lblca {
        lblca.check(&graph)?;
    }
    if let Some(control) = &scenario.control {
        let probes = scenario.flows.iter().filter(|f| f.kind() == "probe");
        control.check(probes.map(|f| f.count).sum())?;
    }
    check_phases(scenario)?;
    for fault in &scenario.faults {
        fault
            .check(scenario.duration)
            .map_err(ScenarioError::Invalid)?;
    }
    check_routes(scenario, &graph)?;
    Ok(graph)
}

/// Parameters of a link, kept for the edges that share it.
#[derive(Default)]
struct Shared {
    latest: Option<(Arc<DirectionSpec>, LinkParams)>,
}

impl Shared {
    fn params(&mut self, edge: &Edge) -> Result<&LinkParams, ScenarioError> {
        let same = |(link, _): &(Arc<DirectionSpec>, LinkParams)| Arc::ptr_eq(link, &edge.link);
        let kept = self.latest.take().filter(same);
        let kept = match kept {
            Some(kept) => kept,
            None => (edge.link.clone(), params(&edge.name, &edge.link)?),
        };
        Ok(&self.latest.insert(kept).1)
    }
}

fn check_flows(scenario: &Scenario) -> Result<(), ScenarioError> {
    if scenario.flows.is_empty() {
        return invalid("there is no [[flow]]: add one, for example kind = \"bulk\"".into());
    }
    let mut flows = 0u64;
    for flow in &scenario.flows {
        let label = flow.label();
        flows = flows.saturating_add(flow.count);
        let tcp = scenario.tcp_of(flow)?;
        if tcp.rate_halving.is_some_and(|f| !(0.0..=1.0).contains(&f)) {
            return invalid(format!("flow \"{label}\": rate_halving: from 0 to 1"));
        }
        let needs_rate = flow
            .source
            .all()
            .any(|(p, v)| p.name == "rate" && v.is_none());
        if needs_rate {
            return invalid(format!(
                "flow \"{label}\": needs a rate above 0, such as rate = \"448 kbit/s\""
            ));
        }
        if flow.is_tcp() && flow.ecn.is_some() {
            return invalid(format!(
                "flow \"{label}\": ecn is what datagrams carry; TCP negotiates it: tcp.ecn = true"
            ));
        }
        if flow.stop.is_some_and(|stop| stop <= flow.start) {
            return invalid(format!(
                "flow \"{label}\": stop = \"{}\" is not after start = \"{}\"",
                flow.stop.unwrap_or_default(),
                flow.start
            ));
        }
        if flow.start > scenario.duration {
            return invalid(format!(
                "flow \"{label}\": start = \"{}\" is after the end, {}",
                flow.start, scenario.duration
            ));
        }
    }
    if flows > MOST_FLOWS {
        return invalid(format!("{flows} flows: at most {MOST_FLOWS}"));
    }
    Ok(())
}

fn check_phases(scenario: &Scenario) -> Result<(), ScenarioError> {
    for phase in &scenario.phases {
        if phase.from >= phase.to || phase.to > scenario.duration {
            return invalid(format!(
                "phase \"{}\": from {} to {} does not lie within the run of {}",
                phase.name, phase.from, phase.to, scenario.duration
            ));
        }
        if phase
            .warmup
            .is_some_and(|warmup| phase.from + warmup >= phase.to)
        {
            return invalid(format!(
                "phase \"{}\": warmup = \"{}\" leaves nothing of it",
                phase.name,
                phase.warmup.unwrap_or_default()
            ));
        }
    }
    Ok(())
}

/// Checks that each flow has a route in both directions.
fn check_routes(scenario: &Scenario, graph: &Graph) -> Result<(), ScenarioError> {
    let mut router = Router::new(graph);
    let mut pair = 0;
    for flow in &scenario.flows {
        // One instance suffices to check the names; the others differ in the pair alone.
        let (from, to) = ends(graph, flow, pair)?;
        pair += flow.count as usize;
        ways(flow, graph, &mut router, (from, to))?;
    }
    Ok(())
}

/// Hosts of a flow: by name, or the next pair.
fn ends(graph: &Graph, flow: &Flow, pair: usize) -> Result<(usize, usize), ScenarioError> {
    let named = |name: &String| {
        graph.find(name).ok_or_else(|| {
            let known: Vec<&str> = graph.nodes.iter().map(String::as_str).collect();
            let shown = known
                .iter()
                .take(12)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            let more = if known.len() > 12 { ", …" } else { "" };
            ScenarioError::Invalid(format!(
                "flow \"{}\": no host \"{name}\". Known: {shown}{more}.{}",
                flow.label(),
                base::words::hint(name, &known)
            ))
        })
    };
    let (from, to) = match (&flow.from, &flow.to) {
        (Some(from), Some(to)) => (named(from)?, named(to)?),
        (None, None) if !graph.pairs.is_empty() => graph.pairs[pair % graph.pairs.len()],
        (None, None) => {
            return invalid(format!(
                "flow \"{}\": say from which host to which: from = \"a\", to = \"b\"",
                flow.label()
            ));
        }
        _ => {
            return invalid(format!(
                "flow \"{}\": give both from and to, or neither",
                flow.label()
            ));
        }
    };
    if from == to {
        return invalid(format!(
            "flow \"{}\": begins and ends at \"{}\"",
            flow.label(),
            graph.nodes[from]
        ));
    }
    Ok(if flow.backwards {
        (to, from)
    } else {
        (from, to)
    })
}

/// Builds a network that is ready to run.
///
/// # Errors
/// Errors of [`check`].
pub fn build(scenario: &Scenario, seed: u64) -> Result<Plan, ScenarioError> {
    let plan = build_while(scenario, seed, &mut || true)?;
    Ok(plan.expect("nothing stops it"))
}

/// Links or flows that are set up between two questions whether to go on.
const AT_ONCE: usize = 4096;

/// Builds a network as long as `go_on` returns true; it is asked only while very many links or flows are set up.
///
/// # Errors
/// Errors of [`check`].
pub(crate) fn build_while(
    scenario: &Scenario,
    seed: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Plan>, ScenarioError> {
    let graph = checked(scenario)?;
    let streams = Streams::new(seed);
    let mut network = Network::default();
    let (mut watched, mut varying) = (Vec::new(), Vec::new());
    let first = graph.edges.iter().find(|e| e.watched);
    let back = first.and_then(|f| {
        let mut edges = graph.edges.iter();
        edges.position(|e| (e.from, e.to) == (f.to, f.from))
    });
    let mut known = Shared::default();
    for (number, edge) in graph.edges.iter().enumerate() {
        if number % AT_ONCE == AT_ONCE - 1 && !go_on() {
            return Ok(None);
        }
        let params = known.params(edge)?;
        // Departures from a port, and arrivals behind a gateway, are not known ahead.
        let steered = scenario.lblca.is_some() || scenario.control.is_some();
        let link = if steered && edge.watched {
            network.add_ready_link(link::Link::new(params, &streams, &edge.name))
        } else {
            network.add_link(params, &streams, &edge.name)
        };
        if edge.watched {
            network.watch(link);
            let mean = params.rate.mean_between(scenario.warmup, scenario.duration);
            let shaped = params.shaper.as_ref().map(link::shaped_rate);
            let mean = shaped.map_or(mean, |rate| rate.min(mean));
            // Avoids a division by zero in an outage without end.
            let mean = mean.max(BitsPerSec::new(1));
            watched.push((link, edge.name.clone(), mean));
            // With framing, the delay of a backlog does not follow from its bytes and the rate.
            let plain = params.framing == link::Framing::NONE;
            if !plain || !matches!(params.rate, link::rate::Rate::Fixed(_)) {
                varying.push(link);
            }
        }
    }
    let gateway = gateway(scenario, &graph, back, &streams, &mut network)?;
    let Some((flows, turns)) = instances(scenario, &graph, &streams, &mut network, go_on)? else {
        return Ok(None);
    };
    let ports = scenario.lblca.as_ref().map(|lblca| {
        let links: Vec<_> = watched.iter().map(|w| w.0).collect();
        lblca.ports(&graph, &links, &streams)
    });
    Ok(Some(Plan {
        network,
        ports,
        gateway,
        watched,
        varying,
        back,
        flows,
        turns,
    }))
}

/// Gateway before the first watched edge, if the scenario has one. Links have the numbers of their edges.
fn gateway(
    scenario: &Scenario,
    graph: &Graph,
    back: Option<usize>,
    streams: &Streams,
    network: &mut Network,
) -> Result<Gateway, ScenarioError> {
    let Some(control) = &scenario.control else {
        return Ok(Gateway::default());
    };
    let first = graph.edges.iter().position(|e| e.watched);
    let Some((link, back)) = first.zip(back) else {
        return invalid("control: no watched link with a reverse direction".into());
    };
    network.tap(link);
    network.tap(back);
    let rate = params(&graph.edges[link].name, &graph.edges[link].link)?.rate;
    Ok(Gateway::new(control, (link, back), rate, streams))
}

/// Adds every instance of every flow to the network, as long as `go_on` returns true.
fn instances(
    scenario: &Scenario,
    graph: &Graph,
    streams: &Streams,
    network: &mut Network,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Flows>, ScenarioError> {
    let mut router = Router::new(graph);
    let (mut flows, mut turns) = (Vec::new(), Vec::new());
    let mut pair = 0;
    let mut starts = streams.stream("scenario/starts");
    for (group, flow) in scenario.flows.iter().enumerate() {
        let settings = Settings {
            dscp: flow.dscp.get(),
            ..scenario.tcp_of(flow)?.settings()
        };
        for i in 0..flow.count {
            if pair % AT_ONCE == AT_ONCE - 1 && !go_on() {
                return Ok(None);
            }
            let (from, to) = ends(graph, flow, pair)?;
            pair += 1;
            let ways = ways(flow, graph, &mut router, (from, to))?;
            let (there, back) = ways[0].1.clone();
            let start = start_of(flow, i, &mut starts);
            let name = format!("flow/{group}/{i}");
            let stop = flow.stop.map_or(Time::MAX, |d| Time::ZERO + d);
            let each = ways
                .iter()
                .map(|(_, (there, back))| mtu(graph, there).min(mtu(graph, back)));
            let mtu = each.min().unwrap_or(Bytes::new(u64::MAX));
            let mark = |pattern| Pattern {
                dscp: flow.dscp.get(),
                ecn: flow.ecn.map_or(Ecn::NotEct, |word| word.0),
                ..pattern
            };
            let span = Span { start, stop };
            let end = match flow.spec().make(&flow.source, mark, span, streams, &name) {
                Made::Application(application) => {
                    let settings = fitting(&settings, mtu);
                    let way = (&there[..], &back[..]);
                    End::Tcp(network.add_application(&settings, way.0, way.1, application, streams))
                }
                Made::Datagrams(source) => {
                    if let Some(size) = source.largest().filter(|size| *size > mtu) {
                        return invalid(format!(
                            "flow \"{}\": its packets of {size} are larger than the mtu of its path, {mtu}, and datagrams are \
                             not fragmented here: lower the size, or raise link.mtu (and reverse.mtu, access.mtu)",
                            flow.label()
                        ));
                    }
                    End::Datagrams(network.add_source(source, &there, &back))
                }
            };
            for (number, (at, (there, back))) in ways[1..].iter().enumerate() {
                match end {
                    End::Tcp(i) => network.lay(i, there, back),
                    End::Datagrams(i) => network.lay_datagrams(i, there, back),
                }
                turns.push((Time::ZERO + *at, flows.len(), number));
            }
            let hosts = (from as u32, to as u32);
            flows.push(Instance { group, end, hosts });
        }
    }
    turns.sort_by_key(|turn| std::cmp::Reverse(turn.0));
    Ok(Some((flows, turns)))
}

/// Links there and back.
type BothWays = (Vec<usize>, Vec<usize>);

/// Ways of a flow between two hosts, each with the time from which it holds; the first holds from the start.
fn ways(
    flow: &Flow,
    graph: &Graph,
    router: &mut Router,
    (from, to): (usize, usize),
) -> Result<Vec<(Duration, BothWays)>, ScenarioError> {
    let refused = |why: String| ScenarioError::Invalid(format!("flow \"{}\": {why}", flow.label()));
    let mut shortest = |a: usize, b: usize| {
        let way = router.route(a, b);
        way.ok_or_else(|| {
            refused(format!(
                "there is no way from \"{}\" to \"{}\"",
                graph.nodes[a], graph.nodes[b]
            ))
        })
    };
    let mut all = vec![(Duration::ZERO, (shortest(from, to)?, shortest(to, from)?))];
    for turn in &flow.routes {
        let mut nodes = vec![from];
        for name in &turn.via {
            let node = graph.find(name).ok_or_else(|| {
                let known: Vec<&str> = graph.nodes.iter().map(String::as_str).collect();
                let (shown, more) = (known[..known.len().min(12)].join(", "), known.len() > 12);
                refused(format!(
                    "routes: no node \"{name}\". Known: {shown}{}.{}",
                    if more { ", …" } else { "" },
                    base::words::hint(name, &known)
                ))
            })?;
            nodes.push(node);
        }
        nodes.push(to);
        let mut way = (Vec::new(), Vec::new());
        for pair in nodes.windows(2) {
            way.0.extend(shortest(pair[0], pair[1])?);
        }
        nodes.reverse();
        for pair in nodes.windows(2) {
            way.1.extend(shortest(pair[0], pair[1])?);
        }
        if turn.at.is_zero() && all.len() == 1 {
            all[0].1 = way;
            continue;
        }
        if all.last().is_some_and(|last| last.0 >= turn.at) {
            return Err(refused(format!(
                "routes: at = \"{}\" must be later than the one before",
                turn.at
            )));
        }
        // What is known ahead of an end's packets stands on its first link.
        if way.0[0] != all[0].1.0[0] || way.1[0] != all[0].1.1[0] {
            return Err(refused(format!(
                "routes: the way from {} on leaves a host by another link; put a router between the host and its links",
                turn.at
            )));
        }
        all.push((turn.at, way));
    }
    Ok(all)
}

/// Largest packet that all links of a route carry.
fn mtu(graph: &Graph, route: &[usize]) -> Bytes {
    let each = route.iter().map(|edge| graph.edges[*edge].link.mtu);
    each.min().unwrap_or(Bytes::new(u64::MAX))
}

/// Settings with segments that fit the path's MTU, as path MTU discovery finds them (RFC 1191).
fn fitting(settings: &Settings, mtu: Bytes) -> Settings {
    let room = mtu.get().saturating_sub(settings.header.get()).max(1);
    Settings {
        mss: settings.mss.min(Bytes::new(room)),
        ..settings.clone()
    }
}

fn start_of(flow: &Flow, number: u64, starts: &mut Rng) -> Time {
    let random = Duration::from_secs_f64(flow.spread.as_secs_f64() * uniform(starts));
    Time::ZERO + flow.start + flow.stagger * number + random
}
