//! Answers of the root servers: whether their signatures come through, and whether it is they who answer.

use super::types::{Asking, gather, question};
use super::{Run, problem};
use crate::ask::Opening;
use crate::dns::message::Manner;
use crate::host::Stopped;
use base::noted::dns::DnsNote;
use domain::base::iana::Rtype;

/// Number of the first socket.
const FIRST: u32 = 1000;

/// All at once.
///
/// # Errors
/// There is no socket.
pub(super) async fn ask(run: &Run) -> Result<(), Stopped> {
    let roots = &run.plan.roots;
    if roots.is_empty() {
        return Ok(());
    }
    run.course.stage("the root servers").await;
    // They are asked only for what they have themselves.
    let manner = Manner {
        recursion: false,
        signatures: true,
        ..Manner::default()
    };
    let mut asking = Vec::new();
    let mut unreachable = Vec::new();
    for (root, socket) in roots.iter().zip(FIRST..) {
        let opened = run
            .course
            .open(Opening::towards(socket, root.address))
            .await;
        unreachable.push(opened.err().map(|e| problem(&e)));
        asking.push(Asking {
            socket,
            far: root.address,
            questions: vec![question(&run.course, ".", Rtype::SOA, manner).await?],
        });
    }
    let patience = run.plan.params.patience;
    let said = gather(&run.course, &asking, patience).await;
    for ((root, said), unreachable) in roots.iter().zip(said).zip(unreachable) {
        let mut said = said.into_iter().next().unwrap_or_default();
        said.problem = unreachable.or(said.problem);
        let name = root.name.clone();
        run.course
            .note(&DnsNote::Root { name, said }, &root.text())
            .await;
    }
    Ok(())
}
