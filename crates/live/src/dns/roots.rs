//! What the root servers say, as it gets here: whether their signatures come with it, and whether it is they who answer.

use super::message::Manner;
use super::types::{gather, question};
use super::{DnsError, Resolver, Run};
use crate::errand::any;
use base::noted::dns::{DnsNote, Origin};
use domain::base::iana::Rtype;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// The IPv4 addresses of a.root-servers.net to m.root-servers.net.
///
/// Source: the root hints file of IANA, <https://www.iana.org/domains/root/files>, as a resolver begins with (RFC 9609,
/// Initializing a DNS Resolver with Priming Queries, section 2).
const ROOTS: [[u8; 4]; 13] = [
    [198, 41, 0, 4],
    [170, 247, 170, 2],
    [192, 33, 4, 12],
    [199, 7, 91, 13],
    [192, 203, 230, 10],
    [192, 5, 5, 241],
    [192, 112, 36, 4],
    [198, 97, 190, 53],
    [192, 36, 148, 17],
    [192, 58, 128, 30],
    [193, 0, 14, 129],
    [199, 7, 83, 42],
    [202, 12, 27, 33],
];

/// The thirteen.
pub fn root_servers() -> Vec<Resolver> {
    let letters = b'a'..=b'm';
    ROOTS
        .iter()
        .zip(letters)
        .map(|(address, letter)| Resolver {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::from(*address)), super::resolvers::PORT),
            origin: Origin::Given,
            name: format!("{}.root-servers.net", char::from(letter)),
        })
        .collect()
}

/// All at once.
///
/// # Errors
/// There is no socket, or the user wants no more.
pub(super) fn ask(run: &mut Run) -> Result<(), DnsError> {
    let roots = &run.plan.roots;
    if roots.is_empty() {
        return Ok(());
    }
    run.stage("the root servers")?;
    // They are asked for what is theirs, and for nothing that they would have to find out.
    let manner = Manner {
        recursion: false,
        signatures: true,
        ..Manner::default()
    };
    let (patience, tally) = (run.plan.patience, &run.errand.tally);
    let said = std::thread::scope(|scope| {
        let threads: Vec<_> = roots
            .iter()
            .map(|root| {
                scope.spawn(move || {
                    let failed = |source| DnsError::Socket {
                        resolver: root.text(),
                        source,
                    };
                    let socket = UdpSocket::bind(any(root.address)).map_err(failed)?;
                    // Without a way there it says so.
                    let connected = socket.connect(root.address);
                    let questions = [question(".", Rtype::SOA, manner)?];
                    let mut said = gather(&socket, &questions, patience, tally);
                    let mut said = said.pop().unwrap_or_default();
                    if let Err(e) = connected {
                        said.problem = Some(super::problem(&e));
                    }
                    Ok(said)
                })
            })
            .collect();
        let join = |t: std::thread::ScopedJoinHandle<Result<_, DnsError>>| {
            t.join().expect("asking does not panic")
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    for (root, said) in run.plan.roots.iter().zip(said) {
        let name = root.name.clone();
        run.errand.note(&DnsNote::Root { name, said }, &root.text());
    }
    Ok(())
}
