//! Copies of captures for Wireshark, with a remark beside each packet that shows a problem.

use super::expert;
use crate::usage;
use measure::capture::pcapng::{Interface, Packet, Writer};
use measure::capture::{LinkType, Reader};
use measure::track::Traffic;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Remarks by packet, counted from 1 over all files.
fn remarks(traffic: &Traffic) -> BTreeMap<u64, String> {
    let mut all: BTreeMap<u64, String> = BTreeMap::new();
    for c in &traffic.connections {
        for event in c.halves.iter().flat_map(expert::events) {
            let Some(frame) = event.frame else { continue };
            let text = all.entry(u64::from(frame)).or_default();
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&event.says());
        }
    }
    all
}

/// Writes the copy: pcapng, with the interfaces of each file apart.
///
/// # Errors
/// A copy that exists already or cannot be written; files that cannot be read a second time.
pub(super) fn write(files: &[PathBuf], traffic: &Traffic, to: &Path) -> anyhow::Result<()> {
    let remarks = remarks(traffic);
    let failed = |e: std::io::Error| anyhow::anyhow!("{}: {e}", to.display());
    let out = File::create_new(to).map_err(|e| usage(format!("{}: {e}", to.display())))?;
    let application = concat!("tailback ", env!("CARGO_PKG_VERSION"));
    let about = format!("{} packets have remarks of tailback trace", remarks.len());
    let mut writer = Writer::new(BufWriter::new(out), application, &about).map_err(failed)?;
    let mut interfaces: BTreeMap<(usize, u32, u16), u32> = BTreeMap::new();
    let (mut number, mut last_ns) = (0u64, 0);
    for (i, path) in files.iter().enumerate() {
        let name = path.display().to_string();
        let input = live::capture::open(path).map_err(|e| usage(format!("{name}: {e}")))?;
        let mut reader = Reader::new(input).map_err(|e| usage(format!("{name}: {e}")))?;
        while let Ok(Some(record)) = reader.next_record() {
            number += 1;
            let LinkType(link) = record.link;
            let next = u32::try_from(interfaces.len()).unwrap_or(u32::MAX);
            let interface = match interfaces.entry((i, record.interface, link)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let described = Interface {
                        link: record.link,
                        name: &name,
                        description: "",
                        speed: None,
                        snaplen: 0,
                    };
                    writer.interface(&described).map_err(failed)?;
                    *new.insert(next)
                }
            };
            last_ns = record.t_ns.unwrap_or(last_ns);
            let packet = Packet {
                interface,
                t_ns: last_ns,
                original_len: record.original_len,
                data: record.data,
                way: None,
                comment: remarks.get(&number).map(String::as_str),
            };
            writer.packet(&packet).map_err(failed)?;
        }
    }
    let mut out = writer.finish().map_err(failed)?;
    out.flush().map_err(failed)
}
