//! Packages of `packaging/pack.py`, made from the binary of this build.

use std::fs;
use std::path::Path;
use std::process::Command;
use testkit::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the standard output of a command line that must succeed.
fn stdout(dir: &Path, line: &str) -> String {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    let out = command
        .args(words)
        .current_dir(dir)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output();
    let out = out.unwrap_or_else(|e| panic!("{line}: {e}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {said}");
    String::from_utf8(out.stdout).expect("text")
}

/// True if this machine has the program.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn packages_have_their_files_run_and_are_the_same_twice() {
    let arch = std::env::consts::ARCH;
    if !has("dpkg-deb") || !["x86_64", "aarch64"].contains(&arch) {
        return testkit::skip("no dpkg-deb, or no packages for this processor");
    }
    let dir = TempDir::new("packages");
    let binary = env!("CARGO_BIN_EXE_tailback");
    // Without compression: the binary of a test build is large.
    for output in ["once", "twice"] {
        let pack = format!(
            "{ROOT}/packaging/pack.py --level 0 --url https://far.example/v1 --output {output} {arch}={binary}"
        );
        stdout(&dir, &pack);
    }
    let sums = stdout(&dir.join("once"), "sha256sum --check SHA256SUMS");
    assert_eq!(sums.matches(": OK").count(), 4, "{sums}");
    stdout(&dir, "diff --recursive once twice");

    // The archive runs where it is unpacked, and has what `make install` leaves out.
    stdout(&dir, &format!("tar -xzf once/tailback-{arch}.tar.gz"));
    let version = format!("tailback {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(stdout(&dir, "tailback/tailback --version"), version);
    for file in [
        "LICENSE-MIT",
        "man/tailback-test.1",
        "completions/_tailback",
        "systemd/tailback-serve.service",
        "systemd/tailback-agent.service",
        "systemd/tailback-hub.service",
    ] {
        assert!(dir.join("tailback").join(file).is_file(), "{file}");
    }
    let formula = fs::read_to_string(dir.join("once/tailback.rb")).expect("a formula");
    let url = format!("url \"https://far.example/v1/tailback-{arch}.tar.gz\"");
    assert!(formula.contains(&url), "{formula}");
    let openwrt = stdout(&dir, "tar -tzf once/tailback-openwrt.tar.gz");
    for file in [
        "Makefile",
        "files/tailback.init",
        &format!("tailback-{arch}"),
    ] {
        assert!(openwrt.contains(&format!("tailback/{file}\n")), "{openwrt}");
    }

    debian(&dir, &version);
}

/// Checks the fields, the files and the units of the Debian package.
fn debian(dir: &Path, version: &str) {
    let entries = fs::read_dir(dir.join("once")).expect("packages");
    let name = entries
        .map(|e| e.expect("a file").file_name().into_string().expect("text"))
        .find(|name| name.ends_with(".deb"))
        .expect("a Debian package");
    let fields = stdout(dir, &format!("dpkg-deb -f once/{name}"));
    assert!(
        fields.starts_with("Package: tailback\nVersion: "),
        "{fields}"
    );
    assert!(!fields.contains("Depends"), "a static binary needs nothing");
    let files = stdout(dir, &format!("dpkg-deb -c once/{name}"));
    for file in [
        "usr/bin/tailback",
        "usr/share/man/man1/tailback-monitor.1.gz",
        "usr/share/bash-completion/completions/tailback",
        "usr/share/doc/tailback/copyright",
    ] {
        assert!(files.contains(&format!(" ./{file}\n")), "{file}: {files}");
    }
    assert!(
        files.lines().all(|line| line.contains(" root/root ")),
        "{files}"
    );
    stdout(dir, &format!("dpkg-deb -x once/{name} root"));
    let installed = "root/usr/bin/tailback";
    assert_eq!(stdout(dir, &format!("{installed} --version")), version);

    // systemd looks for the program: the copies of the units name the unpacked one.
    fs::create_dir(dir.join("units")).expect("a directory");
    let program = dir.join(installed).display().to_string();
    let mut units = Vec::new();
    for unit in fs::read_dir(dir.join("root/usr/lib/systemd/system")).expect("units") {
        let unit = unit.expect("a unit");
        let text = fs::read_to_string(unit.path()).expect("text");
        assert!(text.contains("\nExecStart=/usr/bin/tailback "), "{text}");
        let copy = dir.join("units").join(unit.file_name());
        fs::write(&copy, text.replace("/usr/bin/tailback", &program)).expect("a copy");
        units.push(copy.display().to_string());
    }
    assert_eq!(units.len(), 5, "{units:?}");
    if !has("systemd-analyze") {
        return testkit::skip("no systemd-analyze to check the units with");
    }
    for unit in units {
        stdout(dir, &format!("systemd-analyze verify --man=no {unit}"));
    }
}
