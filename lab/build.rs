//! Puts every scenario of a document (`scenarios/AUTHOR-YEAR/ID.toml`) into the program, so that `reproduce`
//! works without the source tree.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../scenarios");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for folder in fs::read_dir(&root)? {
        let folder = folder?.path();
        let document = name(&folder);
        if !is_work(&document) {
            continue;
        }
        println!("cargo:rerun-if-changed={}", folder.display());
        for file in fs::read_dir(&folder)? {
            let file = file?.path().canonicalize()?;
            if let Some(id) = name(&file).strip_suffix(".toml") {
                files.push((format!("{document}/{id}"), file));
            }
        }
    }
    files.sort();
    let mut out = String::from("&[\n");
    for (id, file) in files {
        writeln!(out, "    ({id:?}, include_str!({file:?})),").expect("writing to memory");
    }
    out.push(']');
    let to = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("reproductions.rs");
    fs::write(to, out)
}

/// True for the folder of a published work, `AUTHOR-YEAR`.
fn is_work(folder: &str) -> bool {
    folder
        .rsplit_once('-')
        .is_some_and(|(_, year)| year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()))
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
