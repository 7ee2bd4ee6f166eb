#!/usr/bin/env python3
"""Lists the crates in the static binary: sbom.py SBOM LICENCES TARGET...

SBOM is a CycloneDX 1.5 document. LICENCES has the licence texts of all crates, each text once, below the names of its
crates. Crates of the build and of tests are in neither. Each TARGET is a Rust target such as x86_64-unknown-linux-musl.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

PACKAGE = "tailback"
# The C library that Rust 1.95 links into static binaries.
MUSL = "1.2.5"
WEB = "crates/report/web"
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|copyright|unlicense|notice)", re.IGNORECASE)


def metadata(targets):
    """Returns what cargo knows of the workspace's crates for these targets."""
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    command += [f"--filter-platform={target}" for target in targets]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def linked(meta):
    """Returns the packages that the binary links, its own first, sorted by name and version."""
    packages = {package["id"]: package for package in meta["packages"]}
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    todo = [i for i, package in packages.items() if package["name"] == PACKAGE]
    seen = set()
    while todo:
        package = todo.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                todo.append(dependency["pkg"])
    return sorted((packages[i] for i in seen), key=lambda p: (p["source"] or "", p["name"], p["version"]))


def checksums(lock):
    """Returns the SHA-256 of each crate's archive, by name and version, as Cargo.lock has them."""
    entries = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"', lock)
    return {(name, version): checksum for name, version, checksum in entries}


def component(package, sums):
    """Returns the entry of one crate."""
    name, version = package["name"], package["version"]
    entry = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version}
    if (name, version) in sums:
        entry["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
        entry["purl"] = f"pkg:cargo/{name}@{version}"
    if package["license"]:
        entry["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    return entry


def licence_texts(packages):
    """Returns the crates of each licence text, in the order of the first crate's name."""
    texts = {}
    for package in packages:
        folder = pathlib.Path(package["manifest_path"]).parent
        for file in sorted([*folder.glob("*"), *folder.glob("*/*")]):
            if LICENCE_FILE.match(file.name) and file.is_file() and file.suffix in ("", ".md", ".txt"):
                text = file.read_text(encoding="utf-8", errors="replace").strip()
                names = texts.setdefault(text, [])
                if (name := f"{package['name']} {package['version']}") not in names:
                    names.append(name)
    return texts


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sbom, licences, targets = sys.argv[1], sys.argv[2], sys.argv[3:]
    meta = metadata(targets)
    packages = linked(meta)
    root = pathlib.Path(meta["workspace_root"])
    sums = checksums((root / "Cargo.lock").read_text())
    own = next(package for package in packages if package["name"] == PACKAGE)
    rust = subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]
    web = json.loads((root / WEB / "package-lock.json").read_text())["packages"]["node_modules/uplot"]
    others = [
        {"type": "library", "bom-ref": name, "name": name, "version": version, "licenses": [{"expression": licence}]}
        for name, version, licence in [
            ("musl", MUSL, "MIT"),
            ("rust-std", rust, "MIT OR Apache-2.0"),
            ("uplot", web["version"], web["license"]),
        ]
    ]
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), datetime.timezone.utc)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**component(own, sums), "type": "application", "name": "tailback"},
        },
        "components": [component(package, sums) for package in packages if package is not own] + others,
    }
    pathlib.Path(sbom).write_text(json.dumps(document, indent=1) + "\n")
    foreign = licence_texts([package for package in packages if package["source"]])
    foreign[(root / WEB / "dist/uplot-licence.txt").read_text().strip()] = [f"uplot {web['version']}"]
    rule = "\n\n" + "-" * 80 + "\n"
    pathlib.Path(licences).write_text(rule.join(f"{', '.join(names)}\n\n{text}" for text, names in foreign.items()) + "\n")


if __name__ == "__main__":
    main()
