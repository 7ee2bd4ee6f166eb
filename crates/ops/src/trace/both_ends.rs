//! Captures of one run at both ends: at this host, and by the server, which tells its packets when the run is over.

use super::background_capture::BackgroundCapture;
use super::ends;
use super::live::Copy;
use crate::progress::Observer;
use crate::trace::Plan;
use crate::write_file;
use base::record::Row;
use live::load::{FarCapture, Peer};
use live::sniff::Passed;
use measure::capture::LinkType;
use measure::control::packets::MOST_HEADERS;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// Directory of the captures in a recording.
const DIRECTORY: &str = "capture";
/// Flows of the answer's text.
const TOP: usize = 4;

/// Captures that run until they are stopped.
pub(crate) struct BothEnds {
    near: BackgroundCapture,
    far: FarCapture,
    directory: PathBuf,
}

impl BothEnds {
    /// # Errors
    /// The server's operator has not allowed it, or one of the ends may not capture.
    pub(crate) fn start(
        peer: &Peer,
        interface: &str,
        recording: &Path,
    ) -> anyhow::Result<BothEnds> {
        let directory = recording.join(DIRECTORY);
        std::fs::create_dir_all(&directory)?;
        let far = FarCapture::start(peer)?;
        // The packets are in the file alone: nobody takes the rows.
        let (rows, _) = mpsc::channel::<Row>();
        let file = directory.join("near.pcapng");
        let near = BackgroundCapture::start(interface, peer.server, &file, rows)?;
        Ok(BothEnds {
            near,
            far,
            directory,
        })
    }

    /// Ends both, writes the far one, and compares them packet by packet.
    ///
    /// # Errors
    /// The server does not tell its packets, or the disk fails. What was captured here stays.
    pub(crate) fn stop(self, observer: &dyn Observer) -> anyhow::Result<ends::Answer> {
        // First here: the far packets come over the same connection.
        let here = self.near.stop()?;
        let far = self.directory.join("far.pcapng");
        let mut copy = Copy::create(&far, "server", LinkType::RAW, MOST_HEADERS as u32)?;
        let told = self.far.stop(&mut |p| {
            copy.packet(&Passed {
                t_ns: p.t_ns,
                original_len: p.ip_bytes,
                data: &p.headers,
                outgoing: p.outgoing,
            });
        });
        copy.close()?;
        for (missed, whose) in [
            (told?, "the server"),
            (here.missed.unwrap_or(0), "this host"),
        ] {
            if missed > 0 {
                observer.warn(&format!(
                    "{whose} had no room for {missed} packets: they count as not captured, or as lost"
                ));
            }
        }
        let plan = Plan {
            files: vec![self.directory.join("near.pcapng")],
            far: vec![far],
            top: TOP,
            ..Plan::default()
        };
        let answer = ends::run(&plan, observer)?;
        let mut json = Vec::new();
        answer.json(&mut json)?;
        write_file(
            &self.directory.join("ends.json"),
            &String::from_utf8_lossy(&json),
        )?;
        Ok(answer)
    }
}
