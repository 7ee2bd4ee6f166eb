//! The Python package as it is built, under the machine's own Python: the tests of `test_package.py`.

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::TempDir;

/// Module that was built with this test, in the directory of the build.
fn module() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.with_file_name("lib_native.so")
}

/// Directory with the package `tailback` in it.
fn package() -> TempDir {
    let directory = TempDir::new("python");
    let package = directory.join("tailback");
    std::fs::create_dir(&package).expect("a directory");
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tailback");
    for file in std::fs::read_dir(files).expect("the package's files") {
        let file = file.expect("a file");
        if file.path().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).expect("a copy");
        }
    }
    let native = package.join("_native.abi3.so");
    std::fs::copy(module(), native).expect("the module is built beside this test");
    directory
}

/// Runs a Python program of the tests with the package that was built.
fn run(program: &str) {
    let directory = package();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let output = Command::new("python3")
        .arg(tests.join(program))
        .env("PYTHONPATH", &*directory)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("TAILBACK_KEY")
        .output()
        .expect("python3 runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    print!("{}{told}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_package_passes_its_own_tests() {
    run("test_package.py");
}

#[test]
fn the_notebooks_run() {
    run("notebooks.py");
}
