#!/usr/bin/env python3
"""Compares the command for Windows, run under Wine, with that for Linux: answers, pages and files, byte for byte, but for the
last digits of long numbers: the systems' mathematical libraries round differently.

    packaging/windows_check.py LINUX-BINARY WINDOWS-BINARY
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WINE = ROOT / "packaging/wine"
# Files that tell facts about the host.
OF_HOST = ("virtual.rec/meta.json", "virtual.rec/report.html")
# Each runs on both systems, beside the recording of a test in virtual time.
CASES = [
    ["analyse", "adsl.rec"],
    ["analyse", "adsl.rec", "--json"],
    ["whatif", "adsl.rec", "--json"],
    ["report", "adsl.rec", "--output", "page.html"],
    ["report", "adsl.rec", "--plot", "cdf", "--output", "cdf.svg"],
    ["twin", "adsl.rec", "--output", "twin.toml"],
    ["export", "adsl.rec", "--format", "csv", "--output", "tables"],
    ["export", "adsl.rec", "--format", "ooni", "--output", "ooni.json"],
    ["sim", str(ROOT / "scenarios/dumbbell.toml"), "--json"],
    ["model"],
    ["list", "links"],
    ["analyse", "missing.rec"],
    ["test", "--link", "adsl", "--virtual", "--seed", "2", "--quiet", "--output", "virtual.rec"],
    ["monitor", "far.example"],
]


def main():
    linux, windows = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        sides = {"linux": [linux], "windows": [str(WINE), windows]}
        found = {}
        for side, command in sides.items():
            here = pathlib.Path(folder, side)
            here.mkdir()
            test = ["test", "--link", "adsl", "--virtual", "--seed", "1", "--quiet", "--output", "adsl.rec"]
            subprocess.run([linux, *test], cwd=here, check=True, capture_output=True)
            found[side] = [answer(command + case, here) for case in CASES]
        wrong = 0
        for case, ours, theirs in zip(CASES, found["linux"], found["windows"]):
            same = ours == theirs or case[0] == "monitor"
            wrong += not same
            print(f"{'equal' if same else 'DIFFERENT':10} exit {theirs[0]}  tailback {' '.join(case)}")
            if not same:
                files = [a[0] for a, b in zip(ours[2], theirs[2]) if a != b]
                print(f"  Linux:   {ours[0]} {ours[1][-300:]}\n  Windows: {theirs[0]} {theirs[1][-300:]}\n  files: {files}")
            if case[0] == "monitor":
                print(f"  {theirs[1].decode().strip().splitlines()[0]}")
                wrong += theirs[0] != 2 or b"needs Linux" not in theirs[1]
        wrong += not measures(linux, windows, folder)
    sys.exit(wrong > 0)


def measures(linux, windows, folder):
    """Test of an emulated ADSL link whose near end is the program for Windows."""
    far = f"{linux} serve > {folder}/serve.log 2>&1"
    near = f"sleep 3; {WINE} {windows} test 10.77.0.2 --quiet --json --output {folder}/real.rec > {folder}/real.json"
    subprocess.run([linux, "emulate", "adsl", "--far", far, "--", "sh", "-c", near], check=True, capture_output=True)
    found = json.loads(pathlib.Path(folder, "real.json").read_text())
    rates = {d: found[d]["link_rate_bps"]["value"] / 1e6 for d in ("down", "up")}
    waits = {d: found[d]["queue_ms"]["value"] for d in ("down", "up")}
    print(f"measured over ADSL: {rates['down']:.2f} and {rates['up']:.3f} Mbit/s, queues of {waits['down']:.0f} and {waits['up']:.0f} ms")
    return abs(rates["down"] / 8 - 1) < 0.03 and abs(rates["up"] / 0.7 - 1) < 0.03 and waits["up"] > 300


def answer(command, here):
    """Exit code, text, and the files that were written."""
    before = set(here.rglob("*"))
    done = subprocess.run(command, cwd=here, capture_output=True)
    text = rounded((done.stdout + done.stderr).replace(b"\r\n", b"\n"))
    # Paths: of both sides alike, so that nothing else is hidden.
    text = text.replace(b"\\", b"/")
    new = sorted(p for p in set(here.rglob("*")) - before if p.is_file())
    files = [(p.relative_to(here).as_posix(), rounded(p.read_bytes())) for p in new]
    return done.returncode, text, [f for f in files if f[0] not in OF_HOST]


def rounded(text):
    """Numbers of more than twelve digits, rounded to so many."""
    return re.sub(rb"-?\d+\.\d{10,}", lambda n: b"%.12g" % float(n[0]), text)


main()
