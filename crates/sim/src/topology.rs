//! Topology: a graph of nodes and one-way links, four common shapes, and the routes through it.

use base::Duration;
use base::spec::{Params as _, params};
use base::words::{Entry, worded};
use link::DirectionSpec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const NO_USUAL: &str = "none: there is no usual one";

params! {
    #[derive(Clone, Copy, Debug)]
    struct Dumbbell for "dumbbell": "hosts s0, s1, … on the left, d0, d1, … on the right, one link between their routers", [] {
        /// hosts on each side
        pairs: u64 = "1" ["1".."100000"], NO_USUAL;
        /// extra delay of each host on the right over the one before
        step: Duration = "0 s" ["0 s".."10 s"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct ParkingLot for "parking_lot": "a row of links; s0 to d0 crosses all of them, s1 to d1 the first, s2 to d2 the second, …", [] {
        /// links in the row
        hops: usize = "2" ["1".."1000"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct Linear for "linear": "a row of links from s0 to d0 without access links", [] {
        /// links in the row
        hops: usize = "1" ["1".."1000"], NO_USUAL;
    }
}

const fn plain(name: &'static str, summary: &'static str) -> Entry {
    Entry {
        name,
        summary,
        sources: &[],
        parameters: &[],
    }
}

/// Every shape, in the order of the help.
pub const TOPOLOGIES: &[Entry] = &[
    Dumbbell::ENTRY,
    ParkingLot::ENTRY,
    Linear::ENTRY,
    plain(
        "cross",
        "four arms at one router: s0 to d0 and s1 to d1 meet there; a link leads to each host",
    ),
    plain("graph", "what the scenario's [[edge]] tables say"),
];

worded! {
    /// Topology, written as `dumbbell:pairs=10`.
    TopologySpec, "topology", TOPOLOGIES.iter()
}

/// A one-way link between two nodes.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Index of the node at its begin.
    pub from: usize,
    /// Index of the node at its end.
    pub to: usize,
    /// Name in recordings and tables.
    pub name: String,
    /// Link of the edge; very many edges share one.
    pub link: Arc<DirectionSpec>,
    /// True if the scenario studies this link's queue.
    pub watched: bool,
}

/// Graph of nodes and links.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Links between them.
    pub edges: Vec<Edge>,
    /// Host pairs for flows that name no hosts: the first such flow gets the first pair, and so on.
    pub pairs: Vec<(usize, usize)>,
}

/// Link settings that the builders use.
pub struct Parts<'a> {
    /// Link that the scenario is about.
    pub link: &'a Arc<DirectionSpec>,
    /// Link of the return path.
    pub reverse: &'a Arc<DirectionSpec>,
    /// Links between hosts and routers.
    pub access: &'a Arc<DirectionSpec>,
}

impl Graph {
    /// Number of the node with this name; adds the node if it is new.
    pub fn node(&mut self, name: &str) -> usize {
        match self.find(name) {
            Some(at) => at,
            None => {
                self.nodes.push(name.to_string());
                self.nodes.len() - 1
            }
        }
    }
    /// Index of the node with this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n == name)
    }

    fn add_node(&mut self, name: String) -> usize {
        self.nodes.push(name);
        self.nodes.len() - 1
    }

    /// Adds a link between two nodes.
    pub fn add(
        &mut self,
        from: usize,
        to: usize,
        name: String,
        link: &Arc<DirectionSpec>,
        watched: bool,
    ) {
        self.edges.push(Edge {
            from,
            to,
            name,
            link: link.clone(),
            watched,
        });
    }

    fn add_access(&mut self, a: usize, b: usize, link: &Arc<DirectionSpec>) {
        for (from, to) in [(a, b), (b, a)] {
            let name = format!("{}>{}", self.nodes[from], self.nodes[to]);
            self.add(from, to, name, link, false);
        }
    }

    /// Builds a named shape; `graph` starts empty.
    pub fn build(spec: &TopologySpec, parts: &Parts) -> Graph {
        let words = spec.words();
        let mut g = Graph::default();
        match words.entry().name {
            "dumbbell" => {
                let left = g.add_node("left".into());
                let right = g.add_node("right".into());
                g.add(left, right, "link".into(), parts.link, true);
                g.add(right, left, "reverse".into(), parts.reverse, false);
                let Dumbbell { pairs, step } = words.read();
                for i in 0..pairs {
                    let far = match step.is_zero() {
                        true => parts.access.clone(),
                        false => Arc::new(DirectionSpec {
                            delay: parts.access.delay + step * i,
                            ..(**parts.access).clone()
                        }),
                    };
                    g.add_pair(i, (left, parts.access), (right, &far));
                }
            }
            "parking_lot" => {
                let hops = words.read::<ParkingLot>().hops;
                let routers: Vec<usize> = (0..=hops).map(|i| g.add_node(format!("r{i}"))).collect();
                for i in 0..hops {
                    let (a, b) = (routers[i], routers[i + 1]);
                    g.add(a, b, format!("link/{i}"), parts.link, true);
                    g.add(b, a, format!("reverse/{i}"), parts.reverse, false);
                }
                g.add_pair(0, (routers[0], parts.access), (routers[hops], parts.access));
                for i in 0..hops {
                    let (a, b) = (routers[i], routers[i + 1]);
                    g.add_pair(i as u64 + 1, (a, parts.access), (b, parts.access));
                }
            }
            "linear" => {
                let hops = words.read::<Linear>().hops;
                let mut at = g.add_node("s0".into());
                let first = at;
                for i in 0..hops {
                    let name = match i + 1 == hops {
                        true => "d0".to_string(),
                        false => format!("r{i}"),
                    };
                    let next = g.add_node(name);
                    let of = |what: &str| match hops {
                        1 => what.to_string(),
                        _ => format!("{what}/{i}"),
                    };
                    g.add(at, next, of("link"), parts.link, true);
                    g.add(next, at, of("reverse"), parts.reverse, false);
                    at = next;
                }
                g.pairs.push((first, at));
            }
            "cross" => {
                let middle = g.add_node("middle".into());
                for i in 0..2 {
                    let source = g.add_node(format!("s{i}"));
                    let sink = g.add_node(format!("d{i}"));
                    g.add_access(source, middle, parts.access);
                    g.add(middle, sink, format!("link/{i}"), parts.link, true);
                    g.add(sink, middle, format!("reverse/{i}"), parts.reverse, false);
                    g.pairs.push((source, sink));
                }
            }
            _ => {}
        }
        g
    }

    /// Adds a host at each of two routers, with its access link.
    fn add_pair(
        &mut self,
        number: u64,
        left: (usize, &Arc<DirectionSpec>),
        right: (usize, &Arc<DirectionSpec>),
    ) {
        let source = self.add_node(format!("s{number}"));
        let sink = self.add_node(format!("d{number}"));
        self.add_access(source, left.0, left.1);
        self.add_access(right.0, sink, right.1);
        self.pairs.push((source, sink));
    }
}

/// Routes with the fewest links; ties go to the links listed first.
pub struct Router<'a> {
    graph: &'a Graph,
    /// Links that leave each node.
    out: Vec<Vec<usize>>,
    /// Links that leave each node, without those to hosts that lead nowhere else.
    core: Vec<Vec<usize>>,
    /// Link to each host that leads nowhere else, from its only neighbour.
    last: Vec<Option<usize>>,
    known: BTreeMap<(usize, usize), Option<Vec<usize>>>,
}

impl<'a> Router<'a> {
    /// Creates the shortest paths of a graph.
    pub fn new(graph: &'a Graph) -> Router<'a> {
        let mut out = vec![Vec::new(); graph.nodes.len()];
        for (i, edge) in graph.edges.iter().enumerate() {
            out[edge.from].push(i);
        }
        let core = out
            .iter()
            .map(|edges| {
                let inner = |e: &&usize| out[graph.edges[**e].to].len() > 1;
                edges.iter().filter(inner).copied().collect()
            })
            .collect();
        let mut last = vec![None; graph.nodes.len()];
        for (i, edge) in graph.edges.iter().enumerate() {
            if let [back] = out[edge.to][..]
                && graph.edges[back].to == edge.from
            {
                last[edge.to].get_or_insert(i);
            }
        }
        Router {
            graph,
            out,
            core,
            last,
            known: BTreeMap::new(),
        }
    }

    /// Links from one node to another; `None` if there is no route.
    pub fn route(&mut self, from: usize, to: usize) -> Option<Vec<usize>> {
        let edge = |e: usize| &self.graph.edges[e];
        if let Some(direct) = self.out[from].iter().find(|e| edge(**e).to == to) {
            return Some(vec![*direct]);
        }
        // Many hosts share a router: the route between routers is searched once.
        if let [only] = self.out[from][..] {
            let mut route = vec![only];
            route.extend(self.between(edge(only).to, to)?);
            return Some(route);
        }
        self.between(from, to)
    }

    fn between(&mut self, from: usize, to: usize) -> Option<Vec<usize>> {
        // A host that leads nowhere else is reached from its only neighbour.
        if let [back] = self.out[to][..] {
            let gate = self.graph.edges[back].to;
            if let Some(last) = self.last[to] {
                let mut route = match gate == from {
                    true => Vec::new(),
                    false => self.search(from, gate)?,
                };
                route.push(last);
                return Some(route);
            }
        }
        self.search(from, to)
    }

    fn search(&mut self, from: usize, to: usize) -> Option<Vec<usize>> {
        if let Some(known) = self.known.get(&(from, to)) {
            return known.clone();
        }
        let mut came: Vec<Option<usize>> = vec![None; self.graph.nodes.len()];
        let mut waiting = VecDeque::from([from]);
        let inner = self.out[to].len() > 1;
        let found = 'search: loop {
            let Some(at) = waiting.pop_front() else {
                break None;
            };
            let edges = if inner { &self.core[at] } else { &self.out[at] };
            for e in edges {
                let next = self.graph.edges[*e].to;
                if next == from || came[next].is_some() {
                    continue;
                }
                came[next] = Some(*e);
                if next == to {
                    let mut route = Vec::new();
                    let mut at = to;
                    while let Some(e) = came[at] {
                        route.push(e);
                        at = self.graph.edges[e].from;
                    }
                    route.reverse();
                    break 'search Some(route);
                }
                waiting.push_back(next);
            }
        };
        self.known.insert((from, to), found.clone());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Arc<DirectionSpec> {
        Arc::new(toml::from_str("rate = \"1 Mbit/s\"").unwrap())
    }
    fn build(text: &str) -> Graph {
        let link = spec();
        let parts = Parts {
            link: &link,
            reverse: &link,
            access: &link,
        };
        Graph::build(&text.parse().unwrap(), &parts)
    }
    fn names(g: &Graph, from: &str, to: &str) -> Option<Vec<String>> {
        let route = Router::new(g).route(g.find(from)?, g.find(to)?)?;
        Some(route.iter().map(|e| g.edges[*e].name.clone()).collect())
    }

    #[test]
    fn routes_of_the_shapes_are_those_that_one_would_draw() {
        for (shape, from, to, way) in [
            ("dumbbell:pairs=3", "s1", "d1", "s1>left link right>d1"),
            ("dumbbell:pairs=3", "d2", "s2", "d2>right reverse left>s2"),
            ("dumbbell:pairs=3", "s0", "s1", "s0>left left>s1"),
            (
                "parking_lot:hops=3",
                "s0",
                "d0",
                "s0>r0 link/0 link/1 link/2 r3>d0",
            ),
            ("parking_lot:hops=3", "s2", "d2", "s2>r1 link/1 r2>d2"),
            ("linear:hops=1", "s0", "d0", "link"),
            ("linear:hops=3", "d0", "s0", "reverse/2 reverse/1 reverse/0"),
            ("cross", "s1", "d1", "s1>middle link/1"),
            ("cross", "d0", "s0", "reverse/0 middle>s0"),
        ] {
            let route = names(&build(shape), from, to).unwrap().join(" ");
            assert_eq!(route, way, "{shape}: {from} to {to}");
        }
    }

    #[test]
    fn a_step_puts_each_host_on_the_right_further_away_both_ways() {
        let g = build("dumbbell:pairs=10,step=2ms");
        let delay = |name: &str| {
            let edge = g.edges.iter().find(|e| e.name == name).unwrap();
            edge.link.delay.as_nanos() / 1_000_000
        };
        for i in 0..10 {
            assert_eq!(delay(&format!("right>d{i}")), 2 * i);
            assert_eq!(delay(&format!("d{i}>right")), 2 * i);
            assert_eq!(delay(&format!("s{i}>left")), 0);
        }
    }

    #[test]
    fn the_shortest_way_is_taken_and_no_way_is_said() {
        let mut g = Graph::default();
        for (a, b) in [
            ("a", "b"),
            ("b", "c"),
            ("c", "d"),
            ("a", "e"),
            ("e", "d"),
            ("x", "y"),
        ] {
            let (a, b) = (g.node(a), g.node(b));
            let name = format!("{}{}", g.nodes[a], g.nodes[b]);
            g.add(a, b, name, &spec(), false);
        }
        assert_eq!(names(&g, "a", "d").unwrap(), ["ae", "ed"]);
        assert_eq!(names(&g, "d", "a"), None);
        assert_eq!(names(&g, "a", "y"), None);
    }
}
