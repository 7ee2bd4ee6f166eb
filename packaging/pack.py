#!/usr/bin/env python3
"""Packs static binaries: an archive and a .deb for each, the package of OpenWrt, the Homebrew formula and checksums.

    packaging/pack.py --output DIR --url URL [--notices FILE] [--with FILE]... [--level N] ARCH=BINARY...

ARCH is x86_64, aarch64 or armv7. A binary that runs on this machine writes the man pages and completions of all packages.
The same inputs and the same SOURCE_DATE_EPOCH give the same bytes. dpkg-deb must be installed.
"""

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
VERSION = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", 0))
# Names of each processor at Debian and at OpenWrt, and its number in the header of an ELF file.
ARCHITECTURES = {
    "x86_64": ("amd64", "x86_64", 62),
    "aarch64": ("arm64", "aarch64", 183),
    "armv7": ("armhf", "arm", 40),
}
# Each shell's completions: their name in an archive, and their file in a Debian package.
COMPLETIONS = {
    "bash": ("tailback.bash", "usr/share/bash-completion/completions/tailback"),
    "zsh": ("_tailback", "usr/share/zsh/vendor-completions/_tailback"),
    "fish": ("tailback.fish", "usr/share/fish/vendor_completions.d/tailback.fish"),
}
CONTROL = """\
Package: tailback
Version: {version}
Architecture: {architecture}
Maintainer: The Tailback developers <tailback@tailback.example>
Installed-Size: {kilobytes}
Section: net
Priority: optional
Description: find where packets wait on an Internet link
 Tailback measures the delay of a link at rest and under load. It tells the
 direction, the size and the kind of the queue, and prints the commands that
 cure it. It also monitors links for weeks, and keeps a modem's queue short.
"""
# A running service gets the new binary after an update. Nothing is started that the administrator has not enabled.
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart 'tailback-*.service' || true
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl stop 'tailback-*.service' || true
fi
"""


def check_processor(arch, binary):
    """Ends the run if the binary is not for this processor."""
    header = binary.read_bytes()[:20]
    if header[:4] != b"\x7fELF" or int.from_bytes(header[18:20], "little") != ARCHITECTURES[arch][2]:
        raise SystemExit(f"{binary} is not a Linux binary for {arch}")


def generated(binaries):
    """Returns the man pages by file name and the completions by shell, as the first binary that runs here writes them."""
    for binary in binaries.values():
        try:
            subprocess.run([binary, "--version"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            break
        except (OSError, subprocess.CalledProcessError):
            continue
    else:
        raise SystemExit("none of the binaries runs on this machine, so the man pages are missing: pack one more that does")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([binary, "man", folder, "--quiet"], check=True, capture_output=True)
        pages = {page.name: page.read_bytes() for page in sorted(pathlib.Path(folder).iterdir())}
    shells = {shell: subprocess.run([binary, "completions", shell], check=True, stdout=subprocess.PIPE).stdout for shell in COMPLETIONS}
    return pages, shells


def units():
    """Returns the systemd units by file name."""
    return {unit.name: unit.read_bytes() for unit in sorted(PACKAGING.glob("*.service"))}


def licences(notices):
    """Returns the licence files by name; `notices` has those of the crates."""
    files = {name: (ROOT / name).read_bytes() for name in ("LICENSE-APACHE", "LICENSE-MIT")}
    return files | ({"THIRD-PARTY.txt": notices.read_bytes()} if notices else {})


def dashboards():
    """Returns the dashboards for Grafana by file name."""
    return {path.name: path.read_bytes() for path in (ROOT / "packaging/grafana").glob("*.json")}


def zipped(data, level=9):
    return gzip.compress(data, level, mtime=0)


def write_archive(path, files, level):
    """Writes a .tar.gz of `files`: content and mode by name."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime, entry.uname, entry.gname = len(data), mode, TIME, "root", "root"
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(zipped(raw.getvalue(), level))


def archive_files(binary, pages, shells, notices):
    files = {"tailback": (binary.read_bytes(), 0o755)}
    plain = licences(notices)
    plain |= {f"man/{name}": page for name, page in pages.items()}
    plain |= {f"completions/{COMPLETIONS[shell][0]}": text for shell, text in shells.items()}
    plain |= {f"systemd/{name}": unit for name, unit in units().items()}
    plain |= {f"grafana/{name}": dashboard for name, dashboard in dashboards().items()}
    files |= {name: (data, 0o644) for name, data in plain.items()}
    return {f"tailback/{name}": file for name, file in files.items()}


def write_deb(path, arch, binary, pages, shells, notices, level):
    """Writes a Debian package by dpkg-deb."""
    files = {"usr/bin/tailback": (binary.read_bytes(), 0o755)}
    plain = {f"usr/share/man/man1/{name}.gz": zipped(page) for name, page in pages.items()}
    plain |= {COMPLETIONS[shell][1]: text for shell, text in shells.items()}
    # `make install` puts the binary into /usr/local, a package may not.
    plain |= {f"usr/lib/systemd/system/{name}": unit.replace(b"/usr/local/bin/", b"/usr/bin/") for name, unit in units().items()}
    plain |= {f"usr/share/tailback/grafana/{name}": dashboard for name, dashboard in dashboards().items()}
    texts = licences(notices)
    copyright_text = b"Tailback is licensed under MIT or Apache-2.0 (/usr/share/common-licenses/Apache-2.0).\n\n" + texts["LICENSE-MIT"]
    plain["usr/share/doc/tailback/copyright"] = copyright_text
    if notices:
        plain["usr/share/doc/tailback/THIRD-PARTY.txt.gz"] = zipped(texts["THIRD-PARTY.txt"])
    files |= {name: (data, 0o644) for name, data in plain.items()}
    kilobytes = sum(-(-len(data) // 1024) for data, _ in files.values())
    control = CONTROL.format(version=VERSION, architecture=ARCHITECTURES[arch][0], kilobytes=kilobytes)
    files["DEBIAN/control"] = (control.encode(), 0o644)
    files["DEBIAN/postinst"] = (POSTINST.encode(), 0o755)
    files["DEBIAN/prerm"] = (PRERM.encode(), 0o755)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, (data, mode) in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)
            (folder / file).chmod(mode)
        for each in [folder, *folder.rglob("*")]:
            if each.is_dir():
                each.chmod(0o755)
            os.utime(each, (TIME, TIME))
        # One thread: xz cuts its blocks by the number of threads.
        compression = ["-Zxz", f"-z{level}", "--threads-max=1"] if level else ["-Znone"]
        command = ["dpkg-deb", "--root-owner-group", *compression, "--build", folder, path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"SOURCE_DATE_EPOCH": str(TIME)})


def write_openwrt(path, binaries, level):
    """Writes the directory of OpenWrt's package with the binaries under OpenWrt's names."""
    folder = PACKAGING / "openwrt"
    files = {str(file.relative_to(folder)): (file.read_bytes(), 0o644) for file in folder.rglob("*") if file.is_file()}
    files |= {f"tailback-{ARCHITECTURES[arch][1]}": (binary.read_bytes(), 0o755) for arch, binary in binaries.items()}
    write_archive(path, {f"tailback/{name}": file for name, file in files.items()}, level)


def write_formula(path, archives, url):
    """Writes the Homebrew formula with the checksums of `archives`; one that is not packed has none."""
    text = (PACKAGING / "tailback.rb").read_text().replace("@URL@", url).replace("@VERSION@", VERSION)
    for arch in ARCHITECTURES:
        checksum = sha256(archives[arch]) if arch in archives else "0" * 64
        text = text.replace(f"@SHA256_{arch}@", checksum)
    path.write_text(text)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def binary_of(text):
    arch, _, binary = text.partition("=")
    if arch not in ARCHITECTURES or not binary:
        raise argparse.ArgumentTypeError(f"expected ARCH=BINARY with ARCH one of {', '.join(ARCHITECTURES)}, not {text}")
    return arch, pathlib.Path(binary).resolve()


def main():
    parser = argparse.ArgumentParser(description="Packs static binaries.")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="directory for the packages")
    parser.add_argument("--url", required=True, help="address of the release's files")
    parser.add_argument("--notices", type=pathlib.Path, help="licence texts of the crates in the binaries")
    more = "file to add to the release, such as the SBOM"
    parser.add_argument("--with", dest="others", type=pathlib.Path, action="append", default=[], help=more)
    parser.add_argument("--level", type=int, choices=range(10), default=9, help="compression, from 0 (none) to 9 [default: 9]")
    parser.add_argument("binaries", type=binary_of, nargs="+", metavar="ARCH=BINARY")
    arguments = parser.parse_args()
    binaries, output = dict(arguments.binaries), arguments.output
    for arch, binary in binaries.items():
        check_processor(arch, binary)
    output.mkdir(parents=True, exist_ok=True)
    pages, shells = generated(binaries)
    archives = {arch: output / f"tailback-{arch}.tar.gz" for arch in binaries}
    files = [*archives.values()]
    for arch, binary in binaries.items():
        write_archive(archives[arch], archive_files(binary, pages, shells, arguments.notices), arguments.level)
        files.append(output / f"tailback_{VERSION}_{ARCHITECTURES[arch][0]}.deb")
        write_deb(files[-1], arch, binary, pages, shells, arguments.notices, arguments.level)
    files.append(output / "tailback-openwrt.tar.gz")
    write_openwrt(files[-1], binaries, arguments.level)
    files.append(output / "tailback.rb")
    write_formula(files[-1], archives, arguments.url)
    for other in arguments.others:
        files.append(output / other.name)
        shutil.copyfile(other, files[-1])
    sums = [f"{sha256(file)}  {file.name}\n" for file in sorted(files)]
    (output / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main()
